"""Markup, style and scripts of the pages that reports become."""
