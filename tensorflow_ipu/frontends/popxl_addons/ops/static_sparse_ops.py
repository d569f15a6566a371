"""Products with constant sparse matrices; `popxl_addons.ops.static_sparse_ops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl

__all__ = ["dense_const_sparse_matmul", "random_sparse"]


_TYPES = (popxl.float16, popxl.float32)


def dense_const_sparse_matmul(lhs: popxl.Tensor, rhs: Any, output_cols: int) -> popxl.Tensor:
    """Returns the product of a tensor with a constant sparse matrix.

    Plans take the matrix for a dense one: what a chip saves on its zeros is not in them.

    Args:
        lhs: the tensor, of float16 or float32.
        rhs: the matrix: a sparse one by rows, of SciPy or as data, indices and indptr; or an array.
        output_cols: number of its columns.

    Returns:
        A tensor of the type of `lhs`.

    Raises:
        RuntimeError: If the tensor is of another type.
        ValueError: If there is an element beyond the last column.
        popart.popart_exception: If shapes do not fit.
    """
    if lhs.dtype not in _TYPES:
        raise RuntimeError(f"lhs must be of float16 or float32. Received: {lhs!r}")
    return lhs @ popxl.constant(_dense(rhs, output_cols), lhs.dtype, "sparse")


def random_sparse(dense: np.ndarray, density: float = 0.5) -> np.ndarray:
    """Sets elements of an array, chosen at random, to 0.

    They are drawn from NumPy's global generator.

    Args:
        dense: the array, which is changed.
        density: the part of the elements that stay, from 0 to 1. At least one stays.

    Returns:
        The array.

    Raises:
        ValueError: If the density is no such number, or the array is empty.
    """
    if not 0 <= density <= 1 or not dense.size:
        raise ValueError(
            "Expected an array with elements, and a density from 0 to 1. Received: "
            f"{dense.shape}, {density}"
        )
    kept = max(round(density * dense.size), 1)
    dense.flat[np.random.permutation(dense.size)[kept:]] = 0
    return dense


def _dense(matrix: Any, columns: int) -> np.ndarray:
    """Returns a matrix as an array with a number of columns."""
    if isinstance(matrix, np.ndarray):
        if matrix.shape[-1] != columns:
            raise ValueError(f"output_cols={columns}, but rhs has the shape {matrix.shape}.")
        return matrix
    if isinstance(matrix, tuple):
        data, indices, before = (np.asarray(part) for part in matrix[:3])
    else:
        data, indices, before = matrix.data, matrix.indices, matrix.indptr
    if len(indices) and np.max(indices) >= columns:
        raise ValueError(
            f"output_cols={columns}, but there is an element in column {np.max(indices)}."
        )
    found = np.zeros((len(before) - 1, columns), data.dtype)
    np.add.at(found, (np.repeat(np.arange(len(before) - 1), np.diff(before)), indices), data)
    return found
