"""Models as programs, with assumed layouts where none is published."""
