"""Keras on the IPU: the public module `ipu.keras`, which is also `keras.ipu`.

Its modules and classes are imported when first used: `import_hook/tables.py` says where they are.
"""

from tensorflow_ipu.import_hook import lazy

# By which programs tell that Keras is the one with IPUs.
__ipu__built__ = "1"

__getattr__, __dir__ = lazy.lazy_modules("keras")
lazy.show_in_keras()
