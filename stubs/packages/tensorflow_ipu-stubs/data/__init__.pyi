# Made by stubs/make_stubs.py.

from tensorflow_ipu.data import ops as ops
