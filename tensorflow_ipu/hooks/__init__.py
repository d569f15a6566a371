"""The places where TensorFlow itself has to know of IPUs."""
