"""Horovod's functions for several processes: the public module `ipu.horovod`.

The processes are the instances of `tensorflow_ipu.distributed`; Horovod calls the index of one its
rank. Its functions and modules are imported when first used, from where `import_hook/tables.py`
says.
"""

from tensorflow_ipu.import_hook import lazy

__getattr__, __dir__ = lazy.lazy_modules("horovod")
