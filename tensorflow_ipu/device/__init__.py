"""TensorFlow's IPU devices, attached to IPUs of the simulated machine."""
