# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.application_compile_op import *
