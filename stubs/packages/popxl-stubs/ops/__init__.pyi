# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl.ops import *
from popxl.ops import var_updates as var_updates
