# Made by stubs/make_stubs.py.

from tensorflow.python.ipu.data.ops import dataset_ops as dataset_ops
