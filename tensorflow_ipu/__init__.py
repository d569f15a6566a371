"""A simulated Graphcore IPU for TensorFlow.

`import tensorflow_ipu as ipu` and `from tensorflow.python import ipu` give the same module. Its
public modules are listed in `import_hook/tables.py`, and imported when first used.

The interpreter imports this package when it starts, before pytest could rewrite its asserts, of
which it has none: PYTEST_DONT_REWRITE.
"""

from tensorflow_ipu.import_hook import finder, lazy

__version__ = "0.1.0"

finder.install()
__getattr__, __dir__ = lazy.lazy_modules("")
