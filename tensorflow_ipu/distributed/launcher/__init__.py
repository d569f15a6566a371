"""Launcher of a program as several instances: the command `poprun`."""
