# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.grad_util_ops import *
