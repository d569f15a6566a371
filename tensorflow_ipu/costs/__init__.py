"""Costs of ops on the chip: pure functions of shapes, types and chip figures."""
