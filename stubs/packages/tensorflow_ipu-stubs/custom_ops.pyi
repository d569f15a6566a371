# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.custom_ops import *
