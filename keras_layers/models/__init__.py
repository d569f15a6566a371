"""Keras models on the IPU: `fit`, `evaluate` and `predict` inside an `IPUStrategy`."""
