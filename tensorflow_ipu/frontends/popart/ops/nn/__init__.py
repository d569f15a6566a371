"""Ops of layers of networks: recurrence, resizing, sequences, several convolutions at once."""
