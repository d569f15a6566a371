"""Shared parts of PopXL and PopART: devices, groups, locations, options, errors, logs."""
