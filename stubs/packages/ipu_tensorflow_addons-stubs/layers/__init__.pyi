# Made by stubs/make_stubs.py.

from ipu_tensorflow_addons.layers import rnn_ops as rnn_ops
