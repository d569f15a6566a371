"""Measurements of the host's work for programs: compilations, launches, transfers."""
