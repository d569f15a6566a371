"""What belongs to TensorFlow's eager mode, and works in graphs too: `backprop`."""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
