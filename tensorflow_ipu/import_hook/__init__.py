"""Import hook of the public modules, its tables, and differences between releases of TensorFlow."""
