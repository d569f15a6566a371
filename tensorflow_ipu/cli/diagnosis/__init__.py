"""Checks of `tensorflow-ipu doctor`; nothing here imports TensorFlow but the probe."""
