"""Initializers of `tensorflow.contrib.layers`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1

Initializer = Callable[..., tf.Tensor]


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Initializer:
    """Returns an initializer whose variance is `factor / n`.

    Args:
        factor: see above.
        mode: meaning of `n`: `FAN_IN`, `FAN_OUT` or `FAN_AVG`, the mean of both.
        uniform: whether values are uniform; else they are normal, truncated at two standard
            deviations.
        seed: of the random numbers.
        dtype: floating-point type of the values.

    Raises:
        TypeError: `dtype` is no floating-point type, or `mode` is unknown.
    """
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError(f"Cannot create initializer for non-floating point type. Received: {dtype}")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    own_dtype = dtype

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        dtype = dtype or own_dtype
        whole = partition_info.full_shape if partition_info is not None else shape
        count = _fan(list(map(int, whole)), mode)
        if uniform:
            limit = math.sqrt(3.0 * factor / count)
            return _v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 makes up for the values that are cut off.
        stddev = math.sqrt(1.3 * factor / count)
        return _v1.truncated_normal(shape, 0.0, stddev, dtype, seed=seed)

    return initializer


def _fan(shape: list[int], mode: str) -> float:
    """Returns the number of inputs, of outputs, or the mean of both, of a weight."""
    inputs = float(shape[-2]) if len(shape) > 1 else float(shape[-1])
    outputs = float(shape[-1])
    for dimension in shape[:-2]:
        inputs *= dimension
        outputs *= dimension
    return {"FAN_IN": inputs, "FAN_OUT": outputs, "FAN_AVG": (inputs + outputs) / 2}[mode]


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Initializer:
    """Returns the initializer of Glorot and Bengio.

    Args:
        uniform: whether values are uniform, or normal.
        seed: of the random numbers.
        dtype: floating-point type of the values.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


def xavier_initializer_conv2d(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Initializer:
    """Returns the initializer of Glorot and Bengio, as `xavier_initializer` does."""
    return xavier_initializer(uniform, seed, dtype)
