"""Import hook that serves the public modules under all their names, and its tables."""
