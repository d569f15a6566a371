# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.vertex_edsl import *
