"""The command line tool `tensorflow-ipu`, which needs no TensorFlow."""
