# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops.replicated_strided_collectives.replicated_all_gather_strided import *
