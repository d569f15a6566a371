# Made by stubs/make_stubs.py.

from tensorflow.python.ipu.data import ops as ops
