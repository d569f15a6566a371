"""Conversions of 8-bit floats on the host: the module `popxl.fp8_utils`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl import dtypes, utils
from tensorflow_ipu.frontends.popxl.utils import (
    host_pow2scale_cast_from_fp8,
    host_pow2scale_cast_to_fp8,
)

__all__ = [
    "host_fp8_mse_scale",
    "host_fp8_mse_scale_pb",
    "host_pow2scale_cast_from_fp8",
    "host_pow2scale_cast_to_fp8",
]

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
    data = utils.to_numpy(src, downcast=False)
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
