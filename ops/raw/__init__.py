"""The raw ops of the original: the modules `gen_*_ops`."""
