"""The device's floating-point arithmetic: float16, traps, and which ops it concerns."""
