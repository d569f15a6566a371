# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.embedding_ops import *
