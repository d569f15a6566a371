"""Keras on the IPU: the public module `ipu.keras`."""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
