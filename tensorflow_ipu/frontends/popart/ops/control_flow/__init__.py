"""Ops with graphs: branches, loops, calls, packed data."""
