# Made by stubs/make_stubs.py.

from tensorflow_ipu.api.data.ops.dataset_ops import *
