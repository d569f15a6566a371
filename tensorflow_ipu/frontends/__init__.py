"""Front ends beside TensorFlow: other APIs whose programs run on the same device."""
