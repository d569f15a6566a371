"""Recurrent layers: their equations, arguments, scans and gradients."""
