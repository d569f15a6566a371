"""Products with constant sparse matrices; the module `popxl_addons.ops.static_sparse_ops`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tensorflow_ipu.frontends import popxl

__all__ = ["CSR", "dense_const_sparse_matmul", "random_sparse"]

_TYPES = (popxl.float16, popxl.float32)


class CSR(NamedTuple):
    """A sparse matrix by rows, with the attributes of one of SciPy.

    Attributes:
        data: Its elements that are not 0, row after row.
        indices: The column of each.
        indptr: For each row, and the end, how many elements come before.
        shape: Rows and columns.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"CSR[{self.shape} {len(self.data)} elements]"

    def toarray(self) -> np.ndarray:
        """Returns it as an array."""
        return _dense(self, self.shape[1])


def dense_const_sparse_matmul(lhs: popxl.Tensor, csr: Any, output_cols: int) -> popxl.Tensor:
    """Returns the product of a tensor with a constant sparse matrix.

    Plans take the matrix for a dense one: what a chip saves on its zeros is not in them.

    Args:
        lhs: the tensor, of float16 or float32.
        csr: the matrix by rows: of `random_sparse` or SciPy, or data, indices and indptr.
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
    return lhs @ popxl.constant(_dense(csr, output_cols), lhs.dtype, "sparse")


def random_sparse(dense: np.ndarray, density: float) -> CSR:
    """Returns a matrix of which only some elements, chosen at random, are kept.

    They are drawn from NumPy's global generator.

    Args:
        dense: the matrix.
        density: the part of the elements that are kept, from 0 to 1.

    Raises:
        ValueError: If it is no matrix, or the density no such number.
    """
    dense = np.asarray(dense)
    if dense.ndim != 2 or not 0 <= density <= 1:
        raise ValueError(
            f"Expected a matrix, and a density from 0 to 1. Received: {dense.shape}, {density}"
        )
    kept = np.random.permutation(dense.size)[: round(density * dense.size)]
    rows, columns = np.unravel_index(np.sort(kept), dense.shape)
    before = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=dense.shape[0]))])
    found = (dense[rows, columns], columns.astype(np.int32), before.astype(np.int32))
    return CSR(*found, dense.shape)


def _dense(csr: Any, columns: int) -> np.ndarray:
    """Returns a sparse matrix as an array."""
    if isinstance(csr, tuple):
        data, indices, before = (np.asarray(part) for part in csr[:3])
    else:
        data, indices, before = csr.data, csr.indices, csr.indptr
    if len(indices) and np.max(indices) >= columns:
        raise ValueError(
            f"output_cols={columns}, but there is an element in column {np.max(indices)}."
        )
    found = np.zeros((len(before) - 1, columns), data.dtype)
    np.add.at(found, (np.repeat(np.arange(len(before) - 1), np.diff(before)), indices), data)
    return found
