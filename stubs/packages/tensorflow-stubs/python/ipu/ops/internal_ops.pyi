# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.internal_ops import *
