"""Pipelines: arguments, stages, the loop over mini-batches and the weight update."""
