# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.embedded_runtime import *
