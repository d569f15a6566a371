"""What the documentation site needs beyond Sphinx: the API reference, and links to it."""
