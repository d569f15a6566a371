"""Measures what the host does while programs run: compilations, launches, transfers."""
