"""Helpers for data of the host: the module `popxl.utils`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl import dtypes
from tensorflow_ipu.frontends.popxl.core import float8
from tensorflow_ipu.frontends.popxl.dtypes import np_dtype_float8_143, np_dtype_float8_152

__all__ = [
    "downcast_np_dtypes",
    "host_cast_then_pow2scale",
    "host_pow2scale_cast_from_fp8",
    "host_pow2scale_cast_to_fp8",
    "host_pow2scale_then_cast",
    "np_dtype_float8_143",
    "np_dtype_float8_152",
    "table_to_string",
    "to_numpy",
]

_FLOATS = (np.dtype("float16"), np.dtype("float32"), np.dtype("float64"))
#: Type of 64 bits -> the type of 32 bits that the device has for it.
downcast_np_dtypes = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


def to_numpy(
    x: Any,
    dtype: dtypes.DTypeLike | None = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> np.ndarray:
    """Returns data of the host as an array in C order.

    Args:
        x: an array, a number, lists of numbers, or a tensor of torch.
        dtype: the type of the result; that which NumPy chooses by default. Besides a `popxl.dtype`
            it may be a name, or a type of NumPy or Python.
        downcast: whether types of 64 bits become those of 32 bits, where `dtype` is not given.
        copy: whether the result may not share memory with `x`. A `numpy.memmap` is never copied.
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN (default).

    Raises:
        RuntimeError: If an argument for 8-bit floats is given with another type.
        ValueError: If a `numpy.memmap` would have to be converted.
        TypeError: If the data cannot become 8-bit floats.
    """
    if dtype is not None:
        dtype = dtypes.of_device(dtype) if downcast else dtypes.dtype.as_dtype(dtype)
    if (log2_scale, nan_on_overflow) != (None, None) and not (dtype and dtype.is_float8):
        raise RuntimeError(
            "Non-default value for log2_scale or nan_on_overflow, which are for 8-bit floats only. "
            f"Received: dtype={dtype}, log2_scale={log2_scale}, nan_on_overflow={nan_on_overflow}"
        )
    if hasattr(x, "detach") and hasattr(x, "numpy"):  # of torch
        x = x.detach().numpy()
    if isinstance(x, np.memmap):
        return _checked_memmap(x, dtype)
    if dtype is not None and dtype.is_float8:
        overflow = True if nan_on_overflow is None else nan_on_overflow
        return _as_float8(x, dtype, copy, log2_scale or 0, overflow)
    array = np.asarray(x, dtype=None if dtype is None else dtype.as_numpy())
    if dtype is None and downcast:
        array = array.astype(downcast_np_dtypes.get(array.dtype, array.dtype), copy=False)
    if copy:
        return np.array(array, order="C")
    return array if array.flags.c_contiguous else np.array(array, order="C")


def _as_float8(
    x: Any, dtype: dtypes.dtype, copy: bool, log2_scale: int, nan_on_overflow: bool
) -> np.ndarray:
    """Returns data as codes of 8-bit floats: floats, or such codes, which stay as they are."""
    array = np.asarray(x)
    if array.dtype == np.dtype(dtype.as_numpy()):
        return np.array(array, order="C") if copy else array
    if array.dtype not in _FLOATS:
        raise TypeError(
            f"Data of the type {array.dtype} is not supported for float8 tensors. Expected: "
            f"float16, float32, float64 or {np.dtype(dtype.as_numpy())}"
        )
    return float8.encode(array, dtype, log2_scale, nan_on_overflow)


def host_pow2scale_cast_to_fp8(
    src: Any,
    dtype: dtypes.DTypeLike | None = None,
    log2_scale: int = 0,
    nan_on_overflow: bool = True,
) -> np.ndarray:
    """Returns data times a power of two as 8-bit floats.

    Args:
        src: the data, of float16, float32 or float64.
        dtype: the format; `popxl.float8_143` by default.
        log2_scale: the power of two.
        nan_on_overflow: whether what is too large becomes NaN; else the largest number.

    Returns:
        An array of the structured type of the format.

    Raises:
        RuntimeError: If the type of the data is another one, or the format is none.
    """
    dtype = dtypes.float8_143 if dtype is None else dtypes.dtype.as_dtype(dtype)
    array = to_numpy(src, downcast=False, copy=False)
    if array.dtype not in _FLOATS or not dtype.is_float8:
        raise RuntimeError(
            f"Casting from {array.dtype} to {dtype} is not currently supported. Expected: float16, "
            "float32 or float64 to float8_143 or float8_152."
        )
    return float8.encode(array, dtype, log2_scale, nan_on_overflow)


def host_pow2scale_cast_from_fp8(
    src: np.ndarray, dtype: dtypes.DTypeLike | None = None, log2_scale: int = 0
) -> np.ndarray:
    """Returns 8-bit floats in another type, times a power of two.

    Args:
        src: an array of the structured type of a format.
        dtype: float16, float32 or float64; float32 by default.
        log2_scale: the power of two.

    Raises:
        RuntimeError: If the array is of another type, or the target is.
    """
    dtype = dtypes.float32 if dtype is None else dtypes.dtype.as_dtype(dtype)
    array = np.asarray(src)
    known = array.dtype.names and dtypes.dtype.as_dtype(array.dtype).is_float8
    if not known or np.dtype(dtype.as_numpy()) not in _FLOATS:
        raise RuntimeError(
            f"Casting from {array.dtype} to {dtype} is not currently supported. Expected: "
            "float8_143 or float8_152 to float16, float32 or float64."
        )
    wide = float8.decode(array, dtypes.dtype.as_dtype(array.dtype)).astype(dtype.as_numpy())
    return np.ldexp(wide, log2_scale)


host_pow2scale_then_cast = host_pow2scale_cast_to_fp8
host_cast_then_pow2scale = host_pow2scale_cast_from_fp8


def _checked_memmap(x: np.memmap, dtype: dtypes.dtype | None) -> np.ndarray:
    """Returns a memory-mapped file as it is, which is shared with the variable made of it."""
    problem = ""
    if dtype is not None and np.dtype(dtype.as_numpy()) != x.dtype:
        problem = (
            "the `dtype` parameter must be None or the same as that of the file. Received: "
            f"dtype={dtype}, and a file of {x.dtype}"
        )
    elif not (x.flags.c_contiguous and x.flags.aligned):
        problem = "it must already be in C-ordered and aligned form: it is never copied."
    elif x.dtype in downcast_np_dtypes:
        problem = (
            f"the dtype `{dtype}` is not supported, as it requires downcasting {x.dtype} to "
            f"{downcast_np_dtypes[x.dtype]}, which would copy it. Write the file in that type."
        )
    if problem:
        raise ValueError(f"When passing a memory-mapped NumPy array, {problem}")
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
