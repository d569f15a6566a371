"""Passes: each is a function `run(program, target)` that changes a Program in place."""
