"""Emulates the device's floating-point arithmetic: float16 rounding, overflow and traps."""
