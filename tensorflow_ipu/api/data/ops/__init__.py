"""The folder of `dataset_ops`: datasets for IPU programs."""

from tensorflow_ipu.import_hook import lazy

__getattr__, __dir__ = lazy.lazy_modules("data.ops")
