"""Ops for IPU programs, one module for each family; most are public as `ipu.<module>`."""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
