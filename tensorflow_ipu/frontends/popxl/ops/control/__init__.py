"""Ops that run graphs: calls, loops and conditionals."""
