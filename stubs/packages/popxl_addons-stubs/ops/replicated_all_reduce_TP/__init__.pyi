# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops.tensor_parallel import *
from popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce_TP as replicated_all_reduce_TP
