# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl.ops.losses import *
