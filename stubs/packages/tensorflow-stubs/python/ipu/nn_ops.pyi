# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.nn_ops import *
