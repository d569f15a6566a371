"""Emulation of the device's floating-point arithmetic: rounding, overflow and traps."""
