# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.cross_replica_ops import *
