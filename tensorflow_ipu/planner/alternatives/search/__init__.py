"""Searches combinations of changes for the fastest configuration of a program that fits."""
