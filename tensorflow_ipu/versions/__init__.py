"""What differs between releases of TensorFlow."""
