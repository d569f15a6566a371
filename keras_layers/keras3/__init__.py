"""Models of Keras 3 in the scope of an `IPUStrategy`."""
