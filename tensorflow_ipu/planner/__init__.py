"""The simulated chip: which tensors are on which tiles when, and how long a program takes."""
