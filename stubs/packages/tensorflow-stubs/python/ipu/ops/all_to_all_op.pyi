# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.all_to_all_op import *
