"""Normalisation over groups of channels in plain TensorFlow and float64, to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

TOLERANCES = {"float32": 2e-5, "float16": 4e-3}


def values(*shape: int, dtype: Any = "float32", seed: int = 0) -> np.ndarray:
    """Returns values whose mean is not 0 and differs along each axis."""
    generator = np.random.default_rng([seed, *shape])
    x = generator.normal(0.5, 1.0, shape)
    for axis, size in enumerate(shape):
        offsets = generator.normal(size=size)
        x += offsets.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return x.astype(dtype)


def reference(
    x: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    groups: int,
    axis: int,
    strided: bool,
    epsilon: float,
) -> tf.Tensor:
    """Normalises group by group, each with a list of its channels."""
    rank = x.shape.rank
    order = [a for a in range(rank) if a != axis % rank] + [axis % rank]
    last = tf.transpose(x, order)
    channels = last.shape[-1]
    size = channels // groups
    group_of = [c % groups if strided else c // size for c in range(channels)]
    columns: list[tf.Tensor] = [None] * channels
    for group in range(groups):
        members = [c for c in range(channels) if group_of[c] == group]
        part = tf.gather(last, members, axis=-1)
        mean, variance = tf.nn.moments(part, list(range(1, rank)), keepdims=True)
        normal = (part - mean) / tf.sqrt(variance + epsilon)
        for place, c in enumerate(members):
            columns[c] = normal[..., place] * gamma[c] + beta[c]
    return tf.transpose(tf.stack(columns, -1), np.argsort(order))


def with_gradients(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, weights: np.ndarray, *settings: Any
) -> list[np.ndarray]:
    """Returns the result of `reference` and the gradients of x, gamma and beta.

    Args:
        x: inputs.
        gamma: scale.
        beta: offset.
        weights: gradient of the result.
        *settings: the other arguments of `reference`.
    """
    tensors = [tf.constant(array, tf.float64) for array in (x, gamma, beta)]
    with tf.GradientTape() as tape:
        for tensor in tensors:
            tape.watch(tensor)
        y = reference(*tensors, *settings)
    gradients = tape.gradient(y, tensors, tf.constant(weights, tf.float64))
    return [np.asarray(array) for array in (y, *gradients)]


def assert_close(actual: Any, expected: Any, dtype: str) -> None:
    """Compares arrays up to rounding in a type."""
    for got, wanted in zip(actual, expected):
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(
            np.asarray(got, np.float64), wanted, rtol=0, atol=TOLERANCES[dtype] * scale
        )
    assert len(actual) == len(expected)
