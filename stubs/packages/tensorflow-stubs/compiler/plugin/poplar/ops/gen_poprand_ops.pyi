# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.raw.gen_poprand_ops import *
