"""Functions that a program has once: which are the same, and gradients captured in them."""
