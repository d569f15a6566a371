# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl.ops.collectives.across_replicas import *
