"""Weights of 4 bits with a scale for each group, and products with constant sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = [
    "dense_const_sparse_matmul",
    "group_quantize_compress_numpy",
    "group_quantize_decompress",
    "group_quantize_decompress_numpy",
    "random_sparse",
]


# Four numbers from 0 to 15 are in one uint16, the first of them in the highest bits.
_NUMBERS, _LEVELS = 4, 16
_PLACES = _LEVELS ** np.arange(_NUMBERS)[::-1]
_TYPES = (popxl.float16, popxl.float32)


def group_quantize_decompress(
    t: popxl.Tensor, group_scale: popxl.Tensor, group_bias: popxl.Tensor, dim: int = -1
) -> popxl.Tensor:
    """Returns the matrix that compressed numbers stand for: each times a scale, plus a bias.

    Args:
        t: the numbers, `(rows, groups, ids)`, four in each uint16.
        group_scale: the scale of each group, `(rows, groups, 1)`.
        group_bias: the bias of each group, likewise.
        dim: the axis of the matrix that the numbers of a row are along.

    Returns:
        A matrix of the type of the scales, `(rows, groups * ids * 4)` if `dim` is the last axis.

    Raises:
        NotImplementedError: If `t` does not have three dimensions.
        ValueError: If shapes or types do not fit, or there is no such axis.
    """
    _check(t.shape, group_scale.shape, group_bias.shape, dim)
    if t.dtype is not popxl.uint16:
        raise ValueError(f"The numbers must be of the type uint16. Received: {t!r}")
    rows, groups, ids = t.shape
    packed = ops.cast(t, popxl.int32).reshape((rows, groups, ids, 1))
    places, levels = (popxl.constant(n, popxl.int32) for n in (_PLACES, _LEVELS))
    numbers = ops.cast(ops.fmod(ops.div(packed, places), levels), group_scale.dtype)
    numbers = numbers.reshape((rows, groups, ids * _NUMBERS))
    scale, bias = (part.reshape((rows, groups, 1)) for part in (group_scale, group_bias))
    matrix = (numbers * scale + bias).reshape((rows, groups * ids * _NUMBERS))
    return matrix if dim % 2 else ops.transpose(matrix)


def group_quantize_compress_numpy(
    t: np.ndarray, group_size: int, dim: int = -1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compresses a matrix to numbers of 4 bits.

    Args:
        t: the matrix.
        group_size: how many neighbors have a scale in common, a multiple of 4; all for 0.
        dim: the axis that they are along.

    Returns:
        The numbers, `(rows, groups, ids)` of uint16, and scale and bias of each group,
        `(rows, groups, 1)` of float16: a 15th of the range of its elements, and the least.

    Raises:
        NotImplementedError: If `t` is no matrix.
        ValueError: If groups are not of equal size, there is no such axis, or an element is not
            finite.
    """
    if t.ndim != 2:
        raise NotImplementedError(f"Only matrices can be compressed. Received: {t.shape}")
    _check_axis(dim)
    lines = np.moveaxis(np.asarray(t, np.float32), dim, -1)
    if not np.isfinite(lines).all():
        raise ValueError(
            "Only finite numbers can be compressed. Received: a matrix with "
            f"{np.count_nonzero(~np.isfinite(lines))} elements that are infinite or NaN."
        )
    size = group_size or lines.shape[1]
    if size % _NUMBERS or lines.shape[1] % size:
        raise ValueError(
            f"group_size must be a multiple of {_NUMBERS} that divides {lines.shape[1]}, the size "
            f"of axis {dim}. Received: {group_size}"
        )
    grouped = lines.reshape(lines.shape[0], -1, size)
    least, most = (reduce(grouped, -1, keepdims=True) for reduce in (np.min, np.max))
    scale = ((most - least) / (_LEVELS - 1)).astype(np.float16)
    bias = least.astype(np.float16)
    steps = np.where(scale > 0, scale, np.float16(1)).astype(np.float32)
    numbers = np.clip(np.rint((grouped - bias) / steps), 0, _LEVELS - 1).astype(np.int64)
    packed = numbers.reshape(*grouped.shape[:2], -1, _NUMBERS) @ _PLACES
    return packed.astype(np.uint16), scale, bias


def group_quantize_decompress_numpy(
    t: np.ndarray, group_scale: np.ndarray, group_bias: np.ndarray, dim: int = -1
) -> np.ndarray:
    """Returns the matrix that compressed numbers stand for.

    Args:
        t: the numbers, as `group_quantize_compress_numpy` returns them.
        group_scale: the scale of each group.
        group_bias: the bias of each group.
        dim: the axis of the matrix that the numbers of a row are along.

    Raises:
        NotImplementedError: If `t` does not have three dimensions.
        ValueError: If shapes do not fit, or there is no such axis.
    """
    _check(t.shape, group_scale.shape, group_bias.shape, dim)
    rows, groups = t.shape[:2]
    numbers = (t.astype(np.int64)[..., np.newaxis] // _PLACES % _LEVELS).reshape(rows, groups, -1)
    scale, bias = (part.reshape(rows, groups, 1) for part in (group_scale, group_bias))
    matrix = numbers.astype(scale.dtype) * scale + bias
    return np.moveaxis(matrix.reshape(rows, -1), -1, dim)


def _check(shape: tuple[int, ...], scale: tuple[int, ...], bias: tuple[int, ...], dim: int) -> None:
    """Raises if numbers are not in groups, or do not fit their scales."""
    if len(shape) != 3:
        raise NotImplementedError(
            f"Compressed numbers must have the shape (rows, groups, ids). Received: {shape}"
        )
    _check_axis(dim)
    for name, given in (("group_scale", scale), ("group_bias", bias)):
        if given not in (shape[:2], (*shape[:2], 1)):
            raise ValueError(
                f"{name} must have the shape {(*shape[:2], 1)}, one for each group. Received: "
                f"{given}"
            )


def _check_axis(dim: int) -> None:
    if not -2 <= dim < 2:
        raise ValueError(f"dim must be an axis of a matrix, from -2 to 1. Received: {dim}")


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
