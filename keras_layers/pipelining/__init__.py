"""Keras models split into the stages of a pipeline."""
