"""Helpers for data of the host: the module `popxl.utils`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl import dtypes

__all__ = ["table_to_string", "to_numpy"]

# What the device has for a type of 64 bits.
_NARROWED = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


def to_numpy(
    x: Any,
    dtype: dtypes.dtype | None = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> np.ndarray:
    """Returns data of the host as an array in C order.

    Args:
        x: an array, a number, lists of numbers, or a tensor of torch.
        dtype: the type of the result; that which NumPy chooses by default.
        downcast: whether types of 64 bits become those of 32 bits, where `dtype` is not given.
        copy: whether the result may not share memory with `x`. A `numpy.memmap` is never copied.
        log2_scale: for 8-bit floats only.
        nan_on_overflow: for 8-bit floats only.

    Raises:
        RuntimeError: If an argument for 8-bit floats is given with another type.
        ValueError: If a `numpy.memmap` would have to be converted.
        TypeError: If the data cannot become 8-bit floats.
    """
    if (log2_scale, nan_on_overflow) != (None, None) and not (dtype and dtype.is_float8):
        raise RuntimeError(
            "Non-default value for log2_scale or nan_on_overflow, which are for 8-bit floats only. "
            f"Received: dtype={dtype}, log2_scale={log2_scale}, nan_on_overflow={nan_on_overflow}"
        )
    if hasattr(x, "detach") and hasattr(x, "numpy"):  # of torch
        x = x.detach().numpy()
    if isinstance(x, np.memmap):
        return _checked_memmap(x, dtype, downcast)
    if dtype is not None and dtype.is_float8:
        return _as_float8(x, dtype, copy)
    array = np.asarray(x, dtype=None if dtype is None else dtype.as_numpy())
    if dtype is None and downcast:
        array = array.astype(_NARROWED.get(array.dtype, array.dtype), copy=False)
    if copy:
        return np.array(array, order="C")
    return array if array.flags.c_contiguous else np.array(array, order="C")


def _as_float8(x: Any, dtype: dtypes.dtype, copy: bool) -> np.ndarray:
    """Returns codes of 8-bit floats, which the data already has to be."""
    array = np.asarray(x)
    if array.dtype == np.dtype(dtype.as_numpy()):
        return np.array(array, order="C") if copy else array
    raise TypeError(
        f"Data of the type {array.dtype} is not supported for float8 tensors. Expected: "
        f"{np.dtype(dtype.as_numpy())}"
    )


def _checked_memmap(x: np.memmap, dtype: dtypes.dtype | None, downcast: bool) -> np.ndarray:
    """Returns a memory-mapped file as it is, which is shared with the variable made of it."""
    if dtype is not None and np.dtype(dtype.as_numpy()) != x.dtype:
        raise ValueError(
            "For a numpy.memmap the dtype parameter must be None or the same as that of the file. "
            f"Received: dtype={dtype}, and a file of {x.dtype}"
        )
    if not (x.flags.c_contiguous and x.flags.aligned):
        raise ValueError("A numpy.memmap must be in C-ordered and aligned form.")
    if x.dtype in _NARROWED:
        raise ValueError(
            f"A numpy.memmap of {x.dtype} requires downcasting to {_NARROWED[x.dtype]}, which "
            "would copy it. Write the file in that type."
        )
    return x


def table_to_string(
    rows: Sequence[Sequence[Any]], delimiter: str = " | ", header: bool = True
) -> str:
    """Returns a table as text, with columns as wide as their widest entry.

    Args:
        rows: the rows, with equally many entries.
        delimiter: what stands between columns.
        header: whether the first row is a header, with a line below it.
    """
    texts = [[str(entry) for entry in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    lines = [
        delimiter.join(entry.ljust(width) for entry, width in zip(row, widths)) + "\n"
        for row in texts
    ]
    if header and len(lines) > 1:
        lines.insert(1, "-" * len(lines[0]) + "\n")
    return "".join(lines)
