"""Raw ops of the original: the public modules `gen_*_ops`."""
