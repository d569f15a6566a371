"""The folder of `backprop`: gradient tapes, in eager mode and in graphs."""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
