"""Keras for the IPU: layers, losses, optimizers, and models made in an `IPUStrategy`."""
