# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.pipelining_ops import *
