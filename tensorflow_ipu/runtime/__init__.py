"""The Python side of the native engine: its ops, trace events and errors."""
