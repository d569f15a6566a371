"""Optimizers: their values, their state and their formulas."""
