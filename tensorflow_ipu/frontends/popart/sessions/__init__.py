"""Sessions of PopART: their life cycle, weights, random state, executables and reports."""
