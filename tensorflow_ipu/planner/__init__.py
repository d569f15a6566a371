"""Planner of a program on the simulated chip: memory of each tile, and time."""
