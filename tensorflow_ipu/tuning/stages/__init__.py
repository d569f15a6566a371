"""Cuts of a program into pipeline stages."""
