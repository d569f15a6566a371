# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.f8_ops import *
