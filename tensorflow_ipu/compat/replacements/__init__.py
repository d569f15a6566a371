"""Replacements of names that TensorFlow, Keras and Python dropped."""
