# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops.tensor_parallel import *
