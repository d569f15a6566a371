"""Ops of neural networks: convolutions, pooling, normalization and losses."""
