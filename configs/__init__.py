"""What a user can configure, and the hardware it is configured for: pure data, no TensorFlow."""
