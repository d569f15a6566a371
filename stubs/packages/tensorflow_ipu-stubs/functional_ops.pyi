# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.functional_ops import *
