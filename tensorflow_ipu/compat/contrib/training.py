"""`tensorflow.contrib.training`: the names of the table `compat/tables/contrib.py`."""

from tensorflow_ipu.compat.facade import names_of

__getattr__, __dir__ = names_of(__name__)
