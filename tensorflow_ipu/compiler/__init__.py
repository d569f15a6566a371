"""Compiles traced functions to Executables."""
