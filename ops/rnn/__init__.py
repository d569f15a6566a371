"""Recurrent layers: equations, arguments, scans and gradients."""
