"""Attaches TensorFlow's IPU devices to IPUs of the simulated machine."""
