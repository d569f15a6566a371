"""The Python side of the native engine."""
