"""Numbers of 8 bits: their codes, tensors of them, and convolutions."""
