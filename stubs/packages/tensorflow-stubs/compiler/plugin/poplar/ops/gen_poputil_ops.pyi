# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.raw.gen_poputil_ops import *
