"""Arithmetic and dilation for the types and strides that TensorFlow's kernels lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def widened(t: Any) -> Any:
    """Casts a tensor, without rounding, to a type that all kernels of TensorFlow take.

    Args:
        t: the tensor: floats, signed or unsigned integers.
    """
    if t.dtype.is_integer:
        return t if t.dtype == tf.int32 else tf.cast(t, tf.int64)
    return tf.cast(t, tf.float32)


def descending(t: Any) -> Any:
    """Reverses the order of the elements' values; applied twice, returns the tensor itself.

    Args:
        t: the tensor. Integers are inverted bit by bit: the least one has no negative.
    """
    return tf.bitwise.invert(t) if t.dtype.is_integer else -t


def remainder(lhs: Any, rhs: Any) -> Any:
    """Returns the remainder with the sign of the dividend.

    Args:
        lhs: the dividend.
        rhs: the divisor, of the same type.
    """
    return tf.cast(tf.truncatemod(widened(lhs), widened(rhs)), lhs.dtype)


def power(t: Any, exponent: Any) -> Any:
    """Raises a tensor, of floats or integers, to a power.

    Args:
        t: the base.
        exponent: the exponent, of the same type.
    """
    if t.dtype.is_integer:
        return tf.cast(tf.pow(widened(t), widened(exponent)), t.dtype)
    return tf.pow(t, exponent)


def dilated(kernel: Any, dilation: Sequence[int]) -> Any:
    """Dilates the kernel of a convolution: puts zeros between its elements.

    Args:
        kernel: the kernel, spatial axes first.
        dilation: distances between its elements, one for each spatial axis.
    """
    for axis, distance in enumerate(dilation):
        size = kernel.shape[axis]
        before, after = kernel.shape[:axis], kernel.shape[axis + 1 :]
        parts = tf.reshape(kernel, [*before, size, 1, *after])
        pads = [(0, distance - 1) if i == axis + 1 else (0, 0) for i in range(len(parts.shape))]
        whole = tf.reshape(tf.pad(parts, pads), [*before, size * distance, *after])
        kernel = whole[(*[slice(None)] * axis, slice(distance * (size - 1) + 1))]
    return kernel
