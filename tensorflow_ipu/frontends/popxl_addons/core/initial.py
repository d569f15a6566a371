"""Initial values of the weights of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

# The scale of the distribution, and where it is cut off, in units of that.
_SCALE, _CUT = 0.02, 2.0


def truncated_normal(*size: int) -> Callable[[], np.ndarray]:
    """Returns a function that draws from a normal distribution without its tails.

    The numbers are quantiles of uniform ones from NumPy's global generator, so `numpy.random.seed`
    makes them repeat.

    Args:
        *size: the shape of what the function returns, an array of float32.
    """

    def draw() -> np.ndarray:
        below = math.erfc(_CUT / math.sqrt(2)) / 2  # the part of the distribution in each tail
        uniform = np.random.uniform(below, 1 - below, size)
        with tf.init_scope(), tf.device("CPU:0"):
            normal = tf.math.ndtri(tf.constant(uniform, tf.float64)).numpy()
        return (normal * _SCALE).astype(np.float32)

    return draw


def zeros(shape: Sequence[int] | int) -> Callable[[], np.ndarray]:
    """Returns a function that returns zeros of float32."""
    return lambda: np.zeros(shape, np.float32)


def ones(shape: Sequence[int] | int) -> Callable[[], np.ndarray]:
    """Returns a function that returns ones of float32."""
    return lambda: np.ones(shape, np.float32)
