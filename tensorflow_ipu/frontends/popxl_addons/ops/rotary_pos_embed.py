"""Rotary embedding of positions; `popxl_addons.ops.rotary_pos_embed`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.dtypes import DTypeLike

__all__ = ["rotary_pos_embed", "trig_table_constants", "trig_tables"]


def rotary_pos_embed(
    t: popxl.Tensor, sin: popxl.Tensor, cos: popxl.Tensor, rotary_dim: int | None = None
) -> popxl.Tensor:
    """Rotates pairs of neighboring elements by angles that depend on their position.

    Args:
        t: queries or keys, `(batch, sequence, heads, size)`.
        sin: sines of the angles, `(sequence, rotary_dim / 2)`, also with a 1 before.
        cos: cosines of the angles, likewise.
        rotary_dim: how many elements are rotated, from the first; all for 0 or None. The others
            stay.

    Returns:
        A tensor of the shape of `t`.

    Raises:
        ValueError: If shapes do not fit.
    """
    batch, length, heads, size = _shape(t, rotary_dim)
    rotated = rotary_dim or size
    for name, table in (("sin", sin), ("cos", cos)):
        if table.shape not in ((length, rotated // 2), (1, length, rotated // 2)):
            raise ValueError(
                f"{name} must have the shape {(length, rotated // 2)}. Received: {table.shape}"
            )
    sin, cos = (table.reshape((1, length, 1, rotated // 2, 1)) for table in (sin, cos))
    head = t if rotated == size else ops.slice(t, 0, rotated, axis=3)
    pairs = head.reshape((batch, length, heads, rotated // 2, 2))
    first, second = ops.split(pairs, 2, axis=4)
    turned = ops.concat([first * cos - second * sin, second * cos + first * sin], axis=4)
    result = turned.reshape((batch, length, heads, rotated))
    if rotated == size:
        return result
    return ops.concat([result, ops.slice(t, rotated, size, axis=3)], axis=3)


def _shape(t: popxl.Tensor, rotary_dim: int | None) -> tuple[int, ...]:
    if t.rank != 4:
        raise ValueError(f"t must have four dimensions. Received: {t.shape}")
    rotated = rotary_dim or t.shape[3]
    if not 0 < rotated <= t.shape[3] or rotated % 2:
        raise ValueError(
            f"rotary_dim must be an even number of at most {t.shape[3]}. Received: {rotated}"
        )
    return t.shape


def trig_tables(
    seq_len: int, rotary_dim: int, base: int = 10000, np_dtype: Any = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Returns sines and cosines of the angles of positions.

    Args:
        seq_len: number of positions.
        rotary_dim: how many elements are rotated.
        base: how far apart the frequencies are.
        np_dtype: the type of the arrays. Angles are computed in it, too.

    Returns:
        Two arrays, `(seq_len, rotary_dim / 2)`.
    """
    dtype = np.dtype(np_dtype).type
    exponents = -np.arange(0, rotary_dim, 2, dtype=dtype) / dtype(rotary_dim)
    angles = np.outer(np.arange(seq_len, dtype=dtype), dtype(base) ** exponents)
    return np.sin(angles), np.cos(angles)


def trig_table_constants(
    seq_len: int, rotary_dim: int, base: int = 10000, dtype: DTypeLike = popxl.float32
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Returns the tables of `trig_tables` as constants of the current graph.

    Args:
        seq_len: number of positions.
        rotary_dim: how many elements are rotated.
        base: how far apart the frequencies are.
        dtype: the type of the constants.
    """
    dtype = popxl.dtype.as_dtype(dtype)
    sin, cos = trig_tables(seq_len, rotary_dim, base, dtype.as_numpy())
    return popxl.constant(sin, dtype, "sin"), popxl.constant(cos, dtype, "cos")
