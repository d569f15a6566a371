"""`popart._internal`: where the original has what PopART and PopXL share."""
