"""Refuses Programs that the device could not run, with the reason."""
