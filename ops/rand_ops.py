"""`dropout`: the public module `ipu.rand_ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import tensor_util

__all__ = ["dropout"]


def dropout(
    x: Any,
    rate: float = 0.5,
    noise_shape: Any = None,
    seed: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> tf.Tensor:
    """Drops elements of a tensor at random, and scales the others to keep the expected sum.

    Args:
        x: a tensor of floats.
        rate: the probability that an element is dropped, in `[0, 1)`. Others are multiplied by
            `1 / (1 - rate)`.
        noise_shape: shape of the mask: for each dimension of `x` either its length, or 1 where the
            mask is the same along it. With None or an empty list the shape of `x`.
        seed: two integers of 32 bits, which fix the mask: it is the same in each step and on each
            replica. By default the mask is another in each step and on each replica, and repeats
            after `reset_ipu_seed`.
        name: name for the op.
        **kwargs: `ref` (by default True): whether the mask is laid out in memory as a tensor that
            it refers to. It has no effect on the results.

    Returns:
        A tensor like `x`. Its gradient goes through the mask that was used, also in loops and
        pipelines.

    Raises:
        TypeError: `x` has no floats, the seed no integers, or a keyword is not known.
        ValueError: the rate, the noise shape or the shape of the seed is wrong.
    """
    _check_keywords(kwargs)
    with tf.name_scope(name or "dropout"):
        tensor = tf.convert_to_tensor(x)
        if not tensor.dtype.is_floating:
            raise TypeError(
                f"x must be a tensor of floats. Received: {tensor.dtype.name}. Cast it with "
                "tf.cast."
            )
        probability = checked_rate(rate)
        shape, tensor = _mask_shape(tensor, noise_shape)
        seed = None if seed is None else _seed_tensor(seed)
        if probability == 0.0:
            return tf.identity(tensor)
        # Numbers of float32 also for float16, which has too few of them for small rates.
        if seed is None:
            numbers = tf.random.uniform(shape, dtype=tf.float32)
        else:
            numbers = tf.raw_ops.StatelessRandomUniform(shape=shape, seed=seed, dtype=tf.float32)
        scale = np.array(1 / (1 - probability), tensor.dtype.as_numpy_dtype)
        return tf.where(numbers >= probability, tensor * scale, tf.zeros([], tensor.dtype))


def _check_keywords(kwargs: dict[str, Any]) -> None:
    unknown = sorted(set(kwargs) - {"ref"})
    if unknown:
        raise TypeError(
            f"dropout takes the keyword ref besides its named arguments. Received: "
            f"{', '.join(unknown)}"
        )


def checked_rate(rate: Any) -> float:
    """Returns a dropout rate as a number.

    Raises:
        TypeError: it is not a number that is known before the program runs.
        ValueError: it is outside of [0, 1).
    """
    value = tensor_util.constant_value(rate) if tf.is_tensor(rate) else rate
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"rate must be a number that is known before the program runs. Received: rate={rate!r}"
        ) from None
    if not 0 <= number < 1:
        raise ValueError(
            f"The rate must be in the range [0, 1), but was {value!r}. It is the "
            "probability that an element is dropped."
        )
    return number


def _mask_shape(x: tf.Tensor, noise_shape: Any) -> tuple[Any, tf.Tensor]:
    """Returns the shape of the mask, and `x` with the static shape that the mask implies."""
    lengths = [] if noise_shape is None else _static_lengths(noise_shape)
    if not lengths:
        return (x.shape if x.shape.is_fully_defined() else tf.shape(x)), x
    if x.shape.rank is None:
        raise ValueError("noise_shape needs an x whose rank is known. Received: an unknown rank")
    if len(lengths) != x.shape.rank:
        raise ValueError(
            "The length of noise_shape must equal the rank of x. Received: "
            f"noise_shape={lengths} for x of shape {x.shape}"
        )
    for axis, (length, dimension) in enumerate(zip(lengths, x.shape)):
        if length != 1 and dimension is not None and length != dimension:
            raise ValueError(
                f"Dimension mismatch: noise_shape must be 1 or {dimension} at dimension {axis}, as "
                f"x has the shape {x.shape}. Received: noise_shape={lengths}"
            )
    if x.shape.is_fully_defined():
        return lengths, x
    known = [d if length == 1 else length for length, d in zip(lengths, x.shape)]
    return lengths, tf.ensure_shape(x, known)


def _static_lengths(noise_shape: Any) -> list[int]:
    """Returns a noise shape as Python integers."""
    value = tensor_util.constant_value(noise_shape) if tf.is_tensor(noise_shape) else noise_shape
    if isinstance(value, tf.TensorShape):
        value = value.as_list() if value.rank is not None else None
    if not isinstance(value, (Sequence, np.ndarray)) or any(length is None for length in value):
        raise ValueError(
            "noise_shape must be a list of integers that are known before the program runs. "
            f"Received: noise_shape={noise_shape!r}"
        )
    return [int(length) for length in value]


def _seed_tensor(seed: Any) -> tf.Tensor:
    """Returns a seed as int32 [2]."""
    tensor = tf.convert_to_tensor(seed)
    if not tensor.dtype.is_integer:
        raise TypeError(
            f"seed must be a pair of integers of 32 bits. Received: {tensor.dtype.name}"
        )
    if not tensor.shape.is_compatible_with([2]):
        raise ValueError(f"Expected the seed to have a shape [2]. Received: {tensor.shape}")
    return tf.cast(tensor, tf.int32)
