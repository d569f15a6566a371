"""Starts a program as several instances: the command `poprun`."""
