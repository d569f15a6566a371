"""Checks that refuse Programs which the device could not run, with the reason."""
