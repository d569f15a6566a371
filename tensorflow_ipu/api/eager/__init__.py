"""The folder of `backprop`: gradient tapes, in eager mode and in graphs."""

from tensorflow_ipu.import_hook import lazy

__getattr__, __dir__ = lazy.lazy_modules("eager")
