"""Products with constant sparse matrices; `popxl_addons.ops.static_sparse_ops`."""

from tensorflow_ipu.frontends.popxl_addons.ops.static_sparse_ops.dense_sparse_matmul import (
    dense_const_sparse_matmul,
    random_sparse,
)

__all__ = [
    "dense_const_sparse_matmul",
    "random_sparse",
]
