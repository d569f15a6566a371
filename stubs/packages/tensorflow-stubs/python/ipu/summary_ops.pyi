# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.summary_ops import *
