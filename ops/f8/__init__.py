"""8-bit floating-point numbers: their codes, tensors and convolutions."""
