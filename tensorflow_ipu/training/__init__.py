"""Sums over mini-batches, the halves of an optimizer step, and initial values on the host."""
