# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.replication_ops import *
