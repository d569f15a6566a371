# Made by stubs/make_stubs.py.

from tensorflow_ipu.serving.application_compile_op import *
