"""Keras layers for IPU programs."""
