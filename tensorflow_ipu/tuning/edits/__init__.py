"""Edits of a Workload: batch, accumulation, replicas, stages, memory."""
