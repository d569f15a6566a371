"""Horovod's functions for several processes: the public module `ipu.horovod`.

The processes are the instances of `tensorflow_ipu.distributed`; Horovod calls the index of one its
rank. Its functions and modules are imported when first used: `_api.py` says where they are.
"""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
