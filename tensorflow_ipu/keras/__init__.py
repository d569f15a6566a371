"""Keras on the IPU: the public module `ipu.keras`, which is also `keras.ipu`.

Its modules and classes are imported when first used: `_api.py` says where they are.
"""

from tensorflow_ipu import _api

# By which programs tell that Keras is the one with IPUs.
__ipu__built__ = "1"

__getattr__, __dir__ = _api.lazy_modules(__name__)
_api.show_in_keras()
