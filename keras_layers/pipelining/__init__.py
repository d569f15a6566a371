"""Pipelined Keras models: stages, assignments, checks and programs."""
