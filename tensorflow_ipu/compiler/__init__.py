"""Compiler from traced functions to Executables."""
