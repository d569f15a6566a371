"""Arithmetic of neural networks: group normalization, convolutions at once, sampled losses."""
