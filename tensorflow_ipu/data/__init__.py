"""Datasets for IPU programs."""
