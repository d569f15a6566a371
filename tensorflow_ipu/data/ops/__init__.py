"""Datasets for IPU programs: `dataset_ops`."""
