"""Accumulators over mini-batches and the halves of an optimizer step."""
