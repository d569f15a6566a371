"""Lowering of models to programs of the device."""
