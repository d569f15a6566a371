# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.within_replica_ops import *
