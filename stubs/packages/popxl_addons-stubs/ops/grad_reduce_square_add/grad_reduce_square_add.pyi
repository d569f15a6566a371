# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops.grad_reduce_square_add import *
