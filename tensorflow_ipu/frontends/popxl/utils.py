"""Host data in the types of PopXL; the modules `popxl.utils`, `.fp8_utils` and `.testing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl import dtypes
from tensorflow_ipu.frontends.popxl.dtypes import np_dtype_float8_143, np_dtype_float8_152

__all__ = [
    "downcast_np_dtypes",
    "get_all_dtypes",
    "get_all_int_dtypes",
    "host_cast_then_pow2scale",
    "host_fp8_mse_scale",
    "host_fp8_mse_scale_pb",
    "host_pow2scale_cast_from_fp8",
    "host_pow2scale_cast_to_fp8",
    "host_pow2scale_then_cast",
    "np_dtype_float8_143",
    "np_dtype_float8_152",
    "table_to_string",
    "to_numpy",
]


_NAN, _LARGEST, _SIGN = 0x80, 0x7F, 0x80


# Bits of the mantissa, and the least exponent of a normal number.
_FORMATS = {dtypes.float8_143: (3, -7), dtypes.float8_152: (2, -15)}


def encode(
    values: np.ndarray, dtype: dtypes.dtype, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray:
    """Returns numbers times a power of two in a format of 8 bits, rounded once to nearest even.

    Args:
        values: the numbers.
        dtype: the format.
        log2_scale: the power of two.
        nan_on_overflow: whether what is too large becomes NaN; else the largest number.

    Returns:
        An array of the structured type of the format.
    """
    bits, least = _FORMATS[dtype]
    wide = np.ldexp(np.asarray(values, np.float64), log2_scale)
    finite = np.isfinite(wide)
    magnitude = np.abs(np.where(finite, wide, 0.0))
    exponent = np.where(magnitude > 0, np.maximum(np.frexp(magnitude)[1] - 1, least), least)
    # In units of the last place a number is whole; each further exponent has as many codes again.
    units = np.rint(np.ldexp(magnitude, bits - exponent)).astype(np.int64)
    code = units + ((exponent - least).astype(np.int64) << bits)
    is_large = code > _LARGEST
    code = np.minimum(code, _LARGEST)
    code = np.where((wide < 0) & (code > 0), code + _SIGN, code)
    is_nan = ~finite | (is_large if nan_on_overflow else False)
    codes = np.where(is_nan, _NAN, code).astype(np.uint8)
    return codes.reshape(np.shape(values)).view(dtype.as_numpy())


def decode(codes: np.ndarray, dtype: dtypes.dtype) -> np.ndarray:
    """Returns the numbers of codes, exactly, in float32.

    Args:
        codes: the codes: of the structured type, or bytes.
        dtype: the format.
    """
    bits, least = _FORMATS[dtype]
    number = np.array(codes, order="C").view(np.uint8).astype(np.int32)
    exponent = (number & _LARGEST) >> bits
    mantissa = (number & ((1 << bits) - 1)) + np.where(exponent > 0, 1 << bits, 0)
    value = np.ldexp(mantissa.astype(np.float32), least - bits + np.maximum(exponent - 1, 0))
    value = np.where(number & _SIGN, -value, value)
    return np.where(number == _NAN, np.float32(np.nan), value).astype(np.float32)


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
    return encode(array, dtype, log2_scale, nan_on_overflow)


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
    return encode(array, dtype, log2_scale, nan_on_overflow)


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
    wide = decode(array, dtypes.dtype.as_dtype(array.dtype)).astype(dtype.as_numpy())
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
        delimiter: the text between columns.
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


_SCALES = range(-31, 32)


# Numbers that stand for those of a bin, spread evenly.
_SAMPLES = 1 + (np.arange(32) + 0.5) / 32


# The exponent in the middle of the normal numbers of a format.
_MIDDLE = 0


# Errors that are equal in so many digits after the point are equal.
_DIGITS = 12


def host_fp8_mse_scale(src: Any, dtype: dtypes.DTypeLike) -> tuple[float, int]:
    """Returns the scale with which 8-bit floats represent data best.

    The data is put into bins of powers of two. The error of a scale is the mean over the data of
    the squared relative errors in their bins. Of scales with equal errors, it is the one that moves
    the data to the middle of the format's range.

    Args:
        src: the data, of float16, float32 or float64.
        dtype: the format.

    Returns:
        The error, and the power of two from -31 to 31.

    Raises:
        RuntimeError: If the type of the data or the format is another one.
    """
    data = to_numpy(src, downcast=False)
    host_pow2scale_cast_to_fp8(data[:0] if data.ndim else data, dtype)  # checks the types
    magnitudes = np.abs(np.asarray(data, np.float64))
    counted = magnitudes[np.isfinite(magnitudes) & (magnitudes > 0)]
    if not counted.size:
        return 0.0, 0
    exponents, counts = np.unique(np.frexp(counted)[1] - 1, return_counts=True)
    weights = counts / counts.sum()
    samples = np.ldexp(_SAMPLES, exponents[:, np.newaxis])

    def error(scale: int) -> float:
        codes = host_pow2scale_cast_to_fp8(samples, dtype, scale, nan_on_overflow=False)
        back = host_pow2scale_cast_from_fp8(codes, dtypes.float64, -scale)
        return float(weights @ np.mean((back / samples - 1) ** 2, axis=1))

    def rank(pair: tuple[float, int]) -> tuple[float, float]:
        away = abs(float(weights @ exponents) + pair[1] - _MIDDLE)
        return round(pair[0], _DIGITS), away

    return min(((error(scale), scale) for scale in _SCALES), key=rank)


def host_fp8_mse_scale_pb(src: Any, dtype: dtypes.DTypeLike) -> int:
    """Returns the power of two of `host_fp8_mse_scale` only.

    Args:
        src: the data.
        dtype: the format.

    Raises:
        RuntimeError: As `host_fp8_mse_scale` does.
    """
    return host_fp8_mse_scale(src, dtype)[1]


def get_all_dtypes() -> list[dtypes.dtype]:
    """Returns all types of elements."""
    return list(dict.fromkeys(v for v in vars(dtypes).values() if isinstance(v, dtypes.dtype)))


def get_all_int_dtypes(
    include_signed: bool = True, include_unsigned: bool = True
) -> list[dtypes.dtype]:
    """Returns the types of whole numbers.

    Args:
        include_signed: whether signed ones are among them.
        include_unsigned: whether unsigned ones are among them.
    """
    wanted = {True: include_signed, False: include_unsigned}
    return [dtype for dtype in get_all_dtypes() if dtype.is_int and wanted[dtype.is_signed]]
