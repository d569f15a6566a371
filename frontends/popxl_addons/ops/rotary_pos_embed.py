"""Rotary embedding of positions; the module `popxl_addons.ops.rotary_pos_embed`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = ["rotary_pos_embed", "trig_table_constants", "trig_tables"]


def rotary_pos_embed(
    t: popxl.Tensor, sin: popxl.Tensor, cos: popxl.Tensor, rotary_dim: int | None = None
) -> popxl.Tensor:
    """Rotates pairs of neighboring elements by angles that depend on their position.

    Args:
        t: queries or keys, `(batch, heads, sequence, size)`.
        sin: sines of the angles, `(sequence, rotary_dim / 2)`, also with a 1 before.
        cos: cosines of the angles, likewise.
        rotary_dim: how many elements are rotated, from the first; all by default. The others stay.

    Returns:
        A tensor of the shape of `t`.

    Raises:
        ValueError: If shapes do not fit.
    """
    batch, heads, length, size = _shape(t, rotary_dim)
    rotated = size if rotary_dim is None else rotary_dim
    for name, table in (("sin", sin), ("cos", cos)):
        if table.shape not in ((length, rotated // 2), (1, length, rotated // 2)):
            raise ValueError(
                f"{name} must have the shape {(length, rotated // 2)}. Received: {table.shape}"
            )
    sin, cos = (table.reshape((1, 1, length, rotated // 2, 1)) for table in (sin, cos))
    head = t if rotated == size else ops.slice(t, 0, rotated, axis=3)
    pairs = head.reshape((batch, heads, length, rotated // 2, 2))
    first, second = ops.split(pairs, 2, axis=4)
    turned = ops.concat([first * cos - second * sin, second * cos + first * sin], axis=4)
    result = turned.reshape((batch, heads, length, rotated))
    if rotated == size:
        return result
    return ops.concat([result, ops.slice(t, rotated, size, axis=3)], axis=3)


def _shape(t: popxl.Tensor, rotary_dim: int | None) -> tuple[int, ...]:
    if t.rank != 4:
        raise ValueError(f"t must have four dimensions. Received: {t.shape}")
    rotated = t.shape[3] if rotary_dim is None else rotary_dim
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
        np_dtype: the type of the arrays.

    Returns:
        Two arrays, `(seq_len, rotary_dim / 2)`.
    """
    frequencies = base ** (-np.arange(0, rotary_dim, 2, dtype=np.float64) / rotary_dim)
    angles = np.arange(seq_len, dtype=np.float64)[:, None] * frequencies
    return np.sin(angles).astype(np_dtype), np.cos(angles).astype(np_dtype)


def trig_table_constants(
    seq_len: int, rotary_dim: int, base: int = 10000, dtype: popxl.dtype = popxl.float32
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Returns the tables of `trig_tables` as constants of the current graph.

    Args:
        seq_len: number of positions.
        rotary_dim: how many elements are rotated.
        base: how far apart the frequencies are.
        dtype: the type of the constants.
    """
    sin, cos = trig_tables(seq_len, rotary_dim, base, dtype.as_numpy())
    return popxl.constant(sin, dtype, "sin"), popxl.constant(cos, dtype, "cos")
