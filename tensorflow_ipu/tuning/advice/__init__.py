"""Advice to the user: remedies, the fastest configuration, the message of a program too large."""
