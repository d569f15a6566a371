"""Group normalization, forward and backward.

Reference: Wu and He, "Group Normalization", https://arxiv.org/abs/1803.08494. Layer normalisation
is that with one group, instance normalisation that with as many groups as channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Grouping:
    """Which elements of a tensor are normalized together.

    Args:
        rank: of the tensor. Its first dimension is the batch.
        axis: of the channels, not negative.
        channels: how many there are.
        groups: how many groups of as many channels each.
        strided: whether channel c is in the group `c % groups`. Otherwise the first
            `channels / groups` channels are the first group, and so on.
    """

    rank: int
    axis: int
    channels: int
    groups: int
    strided: bool

    @property
    def spatial(self) -> list[int]:
        """The axes that are neither batch nor channels."""
        return [axis for axis in range(1, self.rank) if axis != self.axis]

    def for_each_channel(self, vector: tf.Tensor) -> tf.Tensor:
        """Returns a vector `[channels]` in a shape that goes with the tensor's."""
        return tf.reshape(vector, [self.channels] + [1] * (self.rank - 1 - self.axis))

    def positions(self, x: tf.Tensor) -> Any:
        """Returns the number of spatial positions, as something to multiply float32 with."""
        if x.shape.is_fully_defined():
            return float(math.prod(x.shape[axis] for axis in self.spatial))
        return tf.cast(tf.reduce_prod(tf.gather(tf.shape(x), self.spatial)), tf.float32)

    def channel_mean(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the mean over the spatial dimensions, which become 1."""
        return tf.reduce_mean(x, self.spatial, keepdims=True)

    def group_mean(self, means: tf.Tensor) -> tf.Tensor:
        """Returns for each channel the mean of its group's channels; one for all if it is one.

        The large tensor is reduced by channel first, for any grouping: that reads it in the order
        of memory, and what is left for the groups is small.

        Args:
            means: what `channel_mean` returned.
        """
        if self.groups == self.channels:
            return means
        if self.groups == 1:
            # One for all channels, which operations on it take as it is.
            return tf.reduce_mean(means, self.axis, keepdims=True)
        size = self.channels // self.groups
        shape, axis = ([-1, size, self.groups], 1) if self.strided else ([-1, self.groups, size], 2)
        grouped = tf.reshape(means, shape)
        mean = tf.reduce_mean(grouped, axis, keepdims=True)
        return tf.reshape(tf.broadcast_to(mean, _shape(grouped)), _shape(means))


def normalize(
    x: tf.Tensor,
    gamma: tf.Tensor | None,
    beta: tf.Tensor | None,
    grouping: Grouping,
    epsilon: float,
) -> tf.Tensor:
    """Returns `(x - mean) / sqrt(variance + epsilon) * gamma + beta`.

    All arithmetic is in float32. The variance is the mean of squared differences to the mean.

    Args:
        x: float16 or float32, of the rank that `grouping` says.
        gamma: `[channels]`, or None for ones.
        beta: `[channels]`, or None for zeros.
        grouping: over what the mean and the variance are.
        epsilon: added to the variance.

    Returns:
        A tensor of the shape and type of `x`.
    """
    names = [name for name, value in (("gamma", gamma), ("beta", beta)) if value is not None]

    # TensorFlow's gradient of the forward ops passes over the tensor twice as often.
    @tf.custom_gradient
    def with_gradient(x: tf.Tensor, *values: tf.Tensor) -> Any:
        parameters = dict(zip(names, values))
        wide = tf.cast(x, tf.float32)
        centered = wide - grouping.group_mean(grouping.channel_mean(wide))
        variance = grouping.group_mean(grouping.channel_mean(tf.square(centered)))
        inverse = tf.math.rsqrt(variance + epsilon)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            gradients = _gradients(upstream, centered, inverse, parameters.get("gamma"), grouping)
            wanted = [("x", x), *parameters.items()]
            return [tf.cast(gradients[name], value.dtype) for name, value in wanted]

        y = centered * _scaled(inverse, parameters.get("gamma"), grouping)
        if "beta" in parameters:
            y += grouping.for_each_channel(tf.cast(parameters["beta"], tf.float32))
        return tf.cast(y, x.dtype), gradient

    return with_gradient(x, *(value for value in (gamma, beta) if value is not None))


def _gradients(
    upstream: tf.Tensor,
    centered: tf.Tensor,
    inverse: tf.Tensor,
    gamma: tf.Tensor | None,
    grouping: Grouping,
) -> dict[str, tf.Tensor]:
    """Returns the gradients of x, gamma and beta, in float32.

    With n = centered * inverse and g = upstream * gamma, that of x is
    inverse * (g - mean(g) - n * mean(g * n)), the means being over groups.

    Args:
        upstream: gradient of the result.
        centered: x less its mean.
        inverse: 1 / sqrt(variance + epsilon), for each sample and channel.
        gamma: the scale, or None.
        grouping: as in the forward pass.
    """
    upstream = tf.cast(upstream, tf.float32)
    plain = grouping.channel_mean(upstream)
    product = grouping.channel_mean(upstream * centered) * inverse
    scale = _scaled(inverse, gamma, grouping)
    plain_part = grouping.group_mean(_scaled(plain, gamma, grouping)) * inverse
    product_part = grouping.group_mean(_scaled(product, gamma, grouping)) * tf.square(inverse)
    elements = grouping.positions(upstream)
    others = [axis for axis in range(grouping.rank) if axis != grouping.axis]
    return {
        "x": upstream * scale - (centered * product_part + plain_part),
        "gamma": tf.reduce_sum(product, others) * elements,
        "beta": tf.reduce_sum(plain, others) * elements,
    }


def _scaled(x: tf.Tensor, gamma: tf.Tensor | None, grouping: Grouping) -> tf.Tensor:
    return x if gamma is None else x * grouping.for_each_channel(tf.cast(gamma, tf.float32))


def _shape(x: tf.Tensor) -> Any:
    """Returns the shape of a tensor, as numbers if they are known."""
    return x.shape if x.shape.is_fully_defined() else tf.shape(x)
