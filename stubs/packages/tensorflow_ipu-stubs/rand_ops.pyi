# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.rand_ops import *
