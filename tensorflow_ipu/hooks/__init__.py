"""The places where TensorFlow itself has to know of IPUs; `tensorflow_hooks` says what they are."""
