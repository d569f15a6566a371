"""Puts an Ir into a program of the device: TensorFlow functions, feeds and variables."""
