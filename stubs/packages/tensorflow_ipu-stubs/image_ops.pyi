# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.image_ops import *
