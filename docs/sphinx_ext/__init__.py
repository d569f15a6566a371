"""Sphinx extensions of the documentation site: the API reference, and links to it."""
