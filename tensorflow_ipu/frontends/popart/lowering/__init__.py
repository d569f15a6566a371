"""Puts models into programs of the device."""
