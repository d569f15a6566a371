"""Pipelines: their arguments, the stages, the loop over mini-batches and the update."""
