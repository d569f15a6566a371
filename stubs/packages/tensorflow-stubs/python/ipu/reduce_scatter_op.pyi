# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.reduce_scatter_op import *
