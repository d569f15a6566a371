# Made by stubs/make_stubs.py.

from tensorflow_ipu.ops.rnn_ops import *
