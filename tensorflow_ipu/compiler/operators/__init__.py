"""What of TensorFlow the chip can run: a table of its ops, and the checks of programs by it."""
