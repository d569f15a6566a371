"""All patches of TensorFlow that the IPU needs."""
