# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl.ops.collectives import *
from popxl.ops.collectives import collectives as collectives
