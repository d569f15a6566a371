"""From traced functions to Executables."""
