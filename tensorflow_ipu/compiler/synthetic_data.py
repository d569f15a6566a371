"""Synthetic values for buffers that receive no data from the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tensorflow.python.framework import dtypes


def values(dtype: dtypes.DType, shape: tuple[int, ...], initializer: str) -> npt.NDArray[Any]:
    """Returns the synthetic values of a buffer that receives no data.

    The values follow `--synthetic_data_initializer`: `uniform` covers the range of the type,
    `normal` is N(0, 1) (1 for integers), `random` is normal for floating point and uniform for
    integers, a number is that number, and nothing gives zeros.

    Args:
        dtype: type of the buffer.
        shape: its shape.
        initializer: `--synthetic_data_initializer` of TF_POPLAR_FLAGS: a number, "uniform",
            "normal", "random", or "" for zeros.

    Returns:
        An array of that type and shape, the same one each time: the same program is the same
        Executable in every process.
    """
    if initializer not in ("uniform", "normal", "random"):
        value = np.array(float(initializer or 0)).astype(dtype.as_numpy_dtype)
        return np.full(shape, value)
    drawn = _random_values(initializer, dtype, np.random.default_rng(0), shape)
    return drawn.astype(dtype.as_numpy_dtype)


def _random_values(
    initializer: str, dtype: dtypes.DType, generator: np.random.Generator, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Draws the values of a synthetic tensor."""
    if dtype.is_bool:
        return generator.integers(0, 2, shape)
    if dtype.is_floating:
        if initializer == "uniform":
            return generator.uniform(-1.0, 1.0, shape) * float(dtype.max)
        return generator.standard_normal(shape)
    if initializer == "normal":
        return np.ones(shape)
    return generator.integers(dtype.min, dtype.max, shape, np.int64, endpoint=True)
