# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.math_ops import *
