"""Distribution strategy of one process: `IPUStrategy`, and how TensorFlow calls it."""
