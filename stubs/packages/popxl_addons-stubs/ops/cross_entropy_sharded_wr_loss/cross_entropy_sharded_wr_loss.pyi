# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops.cross_entropy_sharded_wr_loss import *
