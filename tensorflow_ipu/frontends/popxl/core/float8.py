"""8-bit floats: codes of numbers and numbers of codes, for data of the host.

The formats are those of `tensorflow_ipu.ops.float8`, without a scale of their own.
"""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.frontends.popxl import dtypes

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
