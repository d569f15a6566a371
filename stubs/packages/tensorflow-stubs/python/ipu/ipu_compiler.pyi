# Made by stubs/make_stubs.py.

from tensorflow_ipu.ipu_compiler import *
