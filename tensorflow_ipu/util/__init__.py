"""Helpers of every package: files, archives, texts, warnings, errors, names of ops."""
