"""Datasets for IPU programs: `dataset_ops`."""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
