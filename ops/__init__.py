"""Ops for IPU programs, one module for each family; most are public as `ipu.<module>`."""

from tensorflow_ipu.import_hook import lazy

__getattr__, __dir__ = lazy.lazy_modules("ops")
