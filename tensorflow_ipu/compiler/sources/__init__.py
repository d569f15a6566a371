"""Finds where the ops of a program come from in the user's code."""
