"""Search of combinations of changes for the fastest configuration that fits."""
