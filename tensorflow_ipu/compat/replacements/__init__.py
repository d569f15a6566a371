"""Replacements of what TensorFlow, Keras and Python dropped."""
