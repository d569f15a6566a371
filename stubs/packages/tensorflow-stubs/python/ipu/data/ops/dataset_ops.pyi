# Made by stubs/make_stubs.py.

from tensorflow_ipu.data.ops.dataset_ops import *
