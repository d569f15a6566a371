"""Operations for IPU programs, one module for each family."""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
