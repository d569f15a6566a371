# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.normalization_ops import *
