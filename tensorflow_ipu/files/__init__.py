"""Files: written privately and whole, archives, and named tensors in them."""
