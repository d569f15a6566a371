# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops.replicated_all_reduce_TP import *
