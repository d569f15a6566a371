"""`popart._internal`: names that PopART and PopXL share."""
