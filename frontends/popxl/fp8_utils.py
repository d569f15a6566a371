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


def host_fp8_mse_scale(src: Any, dtype: dtypes.dtype) -> tuple[float, int]:
    """Returns the scale with which 8-bit floats are closest to data.

    Args:
        src: the data, of float16, float32 or float64.
        dtype: the format.

    Returns:
        The mean of the squared errors, and the power of two from -31 to 31.

    Raises:
        RuntimeError: If the type of the data or the format is another one.
    """
    array = np.asarray(utils.to_numpy(src, downcast=False), np.float64)
    found = []
    for scale in _SCALES:
        codes = host_pow2scale_cast_to_fp8(array, dtype, scale, nan_on_overflow=False)
        error = host_pow2scale_cast_from_fp8(codes, dtypes.float64, -scale) - array
        found.append((float(np.mean(error**2)), scale))
    return min(found, key=lambda pair: (pair[0], abs(pair[1]), pair[1]))


def host_fp8_mse_scale_pb(src: Any, dtype: dtypes.dtype) -> int:
    """Returns the power of two of `host_fp8_mse_scale` only.

    Args:
        src: the data.
        dtype: the format.

    Raises:
        RuntimeError: As `host_fp8_mse_scale` does.
    """
    return host_fp8_mse_scale(src, dtype)[1]
