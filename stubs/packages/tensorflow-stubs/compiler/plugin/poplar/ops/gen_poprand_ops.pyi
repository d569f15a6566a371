# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.gen_poprand_ops import *
