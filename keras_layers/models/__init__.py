"""Keras models on the IPU: what an `IPUStrategy` adds to models made in its scope."""
