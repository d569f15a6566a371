# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.slicing_ops import *
