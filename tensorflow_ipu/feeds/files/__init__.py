"""Files of named tensors, of datasets and of variables."""
