"""Outlined functions: finding equal ones, and gradients captured in them."""
