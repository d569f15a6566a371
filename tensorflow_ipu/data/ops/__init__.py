"""The folder of `dataset_ops`: datasets for IPU programs."""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
