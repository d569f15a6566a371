# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.statistics_ops import *
