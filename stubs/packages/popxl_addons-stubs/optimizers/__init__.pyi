# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.optimizers import *
from popxl_addons.optimizers import adam as adam
