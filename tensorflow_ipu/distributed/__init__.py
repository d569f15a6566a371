"""Training in several processes: the public module `ipu.distributed`.

Each process is an *instance*. So far a program has one: its index is 0, and what instances exchange
stays as it is. `instances.py` says which instances there are, and `transport.py` is all that goes
from one to another; everything else asks these two.

Its functions and modules are imported when first used: `_api.py` says where they are. So `popdist`
can be imported without TensorFlow.
"""

from tensorflow_ipu import _api

__getattr__, __dir__ = _api.lazy_modules(__name__)
