"""Public modules of `tensorflow.python.ipu` that have no other home."""
