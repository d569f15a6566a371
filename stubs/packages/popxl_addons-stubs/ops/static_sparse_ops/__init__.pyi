# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl_addons.ops.compressed_weights import *
from popxl_addons.ops.static_sparse_ops import dense_sparse_matmul as dense_sparse_matmul
