"""Training in several processes: the public module `ipu.distributed`.

Each process is an *instance*. Without a launcher a program has one: its index is 0, and collectives
of instances return their inputs. `instances.py` finds the instances, and `transport.py` has all
transfers between them; other code uses these two.

Its functions and modules are imported when first used, from where `import_hook/tables.py` says. So
`popdist` can be imported without TensorFlow.
"""

from tensorflow_ipu.import_hook import lazy

__getattr__, __dir__ = lazy.lazy_modules("distributed")
