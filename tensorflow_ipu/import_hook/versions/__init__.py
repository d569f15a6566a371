"""Differences between releases of TensorFlow."""
