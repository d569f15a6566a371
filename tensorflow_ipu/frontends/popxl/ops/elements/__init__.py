"""Elements by index."""
