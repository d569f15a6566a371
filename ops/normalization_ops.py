"""Group, instance and layer normalization: the public module `ipu.normalization_ops`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python import tf2

from tensorflow_ipu.util.notices import warn_once

__all__ = ["group_norm", "instance_norm", "layer_norm"]
#: The smallest epsilon whose inverse is a finite float16, which the device may compute with.
SMALLEST_EPSILON = 1.53e-5


class _DefaultEpsilon(float):
    """The documented default, told from the same number passed by a user."""


_DEFAULT_EPSILON = _DefaultEpsilon(1e-6)


@dataclass(frozen=True)
class _Variables:
    """How `beta` and `gamma` are made; the fields are arguments of the public functions."""

    center: bool
    scale: bool
    initializers: Mapping[str, Any] | None
    reuse: bool | None
    collections: Any
    trainable: bool
    scope: Any


def group_norm(
    inputs: Any,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = _DEFAULT_EPSILON,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
    strided_channel_grouping: bool = True,
) -> tf.Tensor:
    """Normalises each sample over groups of its channels (https://arxiv.org/abs/1803.08494).

    The result is `(inputs - mean) / sqrt(variance + epsilon) * gamma + beta`. The mean and the
    variance (of all values, not an estimate from a sample) are over the channels of a group and all
    spatial positions, in float32, and computed again in inference.

    Args:
        inputs: `[batch, ..., channels]` or `[batch, channels, ...]`, float16 or float32.
        groups: how many groups; has to divide the number of channels.
        channels_axis: of the channels: the last one, or 1.
        center: whether there is a variable `beta` `[channels]`, at first zeros.
        scale: whether there is a variable `gamma` `[channels]`, at first ones.
        epsilon: added to the variance. The default is 1e-6, and 1.53e-5 where TensorFlow 2's
            behaviour is on.
        param_initializers: other initializers, by the names `beta` and `gamma`.
        reuse: whether to reuse the variables of `scope`, as in `tf.compat.v1.variable_scope`.
        variables_collections: further graph collections for the variables: a list, or a dict from
            the names `beta` and `gamma` to lists.
        training: has no effect: training and inference compute the same.
        trainable: whether the variables are among the trainable ones.
        scope: name or scope of the variables; `GroupNorm` by default.
        strided_channel_grouping: whether channel c is in the group `c % groups`. If False, groups
            are blocks of neighbouring channels, as in other frameworks.

    Returns:
        A tensor of the shape and type of `inputs`.

    Raises:
        TypeError: If `inputs` are neither float16 nor float32.
        ValueError: If the rank or the number of channels is not known, the rank is less than 2,
            `channels_axis` is neither 1 nor the last, or `groups` does not divide the channels.
    """
    del training
    variables = _Variables(
        center, scale, param_initializers, reuse, variables_collections, trainable, scope
    )
    return _norm(
        "GroupNorm", inputs, groups, strided_channel_grouping, channels_axis, epsilon, variables
    )


def layer_norm(
    inputs: Any,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = _DEFAULT_EPSILON,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """Normalises each sample over all its values (https://arxiv.org/abs/1607.06450).

    It is `group_norm` with one group; `beta` and `gamma` are `[channels]`.

    Args:
        inputs: see `group_norm`; so for the other arguments.
        channels_axis: of the channels: the last one, or 1.
        center: whether there is a variable `beta`.
        scale: whether there is a variable `gamma`.
        epsilon: added to the variance.
        param_initializers: other initializers of the variables.
        reuse: whether to reuse the variables of `scope`.
        variables_collections: further graph collections for the variables.
        training: has no effect.
        trainable: whether the variables are among the trainable ones.
        scope: name or scope of the variables; `LayerNorm` by default.

    Returns:
        A tensor of the shape and type of `inputs`.

    Raises:
        TypeError: See `group_norm`.
        ValueError: See `group_norm`.
    """
    del training
    variables = _Variables(
        center, scale, param_initializers, reuse, variables_collections, trainable, scope
    )
    return _norm("LayerNorm", inputs, 1, False, channels_axis, epsilon, variables)


def instance_norm(
    inputs: Any,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = _DEFAULT_EPSILON,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """Normalises each channel of each sample (https://arxiv.org/abs/1607.08022).

    It is `group_norm` with as many groups as channels.

    Args:
        inputs: see `group_norm`; so for the other arguments.
        channels_axis: of the channels: the last one, or 1.
        center: whether there is a variable `beta`.
        scale: whether there is a variable `gamma`.
        epsilon: added to the variance.
        param_initializers: other initializers of the variables.
        reuse: whether to reuse the variables of `scope`.
        variables_collections: further graph collections for the variables.
        training: has no effect.
        trainable: whether the variables are among the trainable ones.
        scope: name or scope of the variables; `InstanceNorm` by default.

    Returns:
        A tensor of the shape and type of `inputs`.

    Raises:
        TypeError: See `group_norm`.
        ValueError: See `group_norm`.
    """
    del training
    variables = _Variables(
        center, scale, param_initializers, reuse, variables_collections, trainable, scope
    )
    return _norm("InstanceNorm", inputs, None, False, channels_axis, epsilon, variables)


def _norm(
    name: str,
    inputs: Any,
    groups: int | None,
    strided: bool,
    channels_axis: int,
    epsilon: float,
    variables: _Variables,
) -> tf.Tensor:
    """Makes the variables and normalises with them."""
    inputs = float_tensor(name, inputs)
    known_as = getattr(inputs, "name", "inputs")  # eager tensors have no name
    grouping = grouping_of(inputs.shape, channels_axis, groups, strided, known_as)
    with tf.compat.v1.variable_scope(variables.scope, name, [inputs], reuse=variables.reuse):
        parameters = _make_variables(variables, grouping.channels, inputs.dtype)
        return normalize(
            inputs,
            parameters.get("gamma"),
            parameters.get("beta"),
            grouping,
            checked_epsilon(epsilon, tf.compat.v1.get_variable_scope().name),
        )


def float_tensor(operation: str, inputs: Any) -> tf.Tensor:
    """Returns inputs as a tensor.

    Args:
        operation: the operation to name in errors.
        inputs: the value.

    Raises:
        TypeError: they are neither float16 nor float32.
    """
    inputs = tf.convert_to_tensor(inputs)
    if inputs.dtype not in (tf.float16, tf.float32):
        raise TypeError(
            f"{operation} takes inputs of the types float16, float32. Received: "
            f"{inputs.dtype.name}. Cast them with tf.cast."
        )
    return inputs


def grouping_of(
    shape: tf.TensorShape, channels_axis: int, groups: int | None, strided: bool, name: str
) -> Grouping:
    """Checks how a tensor is to be normalised.

    Args:
        shape: of the tensor.
        channels_axis: of the channels.
        groups: how many; None for as many as channels.
        strided: whether groups are interleaved.
        name: of the tensor or layer, for errors.

    Raises:
        ValueError: see `group_norm`.
    """
    rank = shape.rank
    if rank is None:
        raise ValueError(
            f"Inputs {name} has undefined rank. Normalisation needs to know it when the program is "
            "built: set the shape with tf.ensure_shape."
        )
    if rank < 2:
        raise ValueError(
            "Normalisation needs inputs of a rank of at least 2, one dimension being the batch and "
            f"one the channels. Received: shape={shape}"
        )
    axis = channels_axis + rank if channels_axis < 0 else channels_axis
    if not 0 <= axis < rank:
        raise ValueError(
            f"Axis is out of bounds. Received: channels_axis={channels_axis} for inputs of rank "
            f"{rank}"
        )
    if axis not in (1, rank - 1):
        raise ValueError(
            "Unsupported data format: channels_axis must be 1 or the last one (-1). Received: "
            f"channels_axis={channels_axis} for inputs of shape {shape}. Transpose the inputs."
        )
    channels = shape.as_list()[axis]
    if channels is None:
        raise ValueError(
            f"Inputs {name} has undefined channel dimension. The number of channels must be known "
            f"when the program is built. Received: shape={shape} with "
            f"channels_axis={channels_axis}. Set it with tf.ensure_shape."
        )
    groups = channels if groups is None else groups
    if not 1 <= groups <= channels:
        raise ValueError(
            f"Invalid groups {groups} for {channels} channels. It must be from 1 to the number of "
            "channels."
        )
    if channels % groups:
        raise ValueError(
            f"{channels} channels is not commensurate with {groups} groups. The number of groups "
            "must divide the number of channels."
        )
    return Grouping(rank, axis, channels, groups, strided)


def checked_epsilon(epsilon: float, layer: str) -> float:
    """Returns the epsilon to use; the first that is too small for the device gives a warning.

    Args:
        epsilon: added to the variance.
        layer: name of the layer, for the warning.
    """
    if isinstance(epsilon, _DefaultEpsilon):
        return SMALLEST_EPSILON if tf2.enabled() else float(epsilon)
    if epsilon < SMALLEST_EPSILON:
        warn_once(
            "An epsilon of %g may be too small for the device: with float16, use at least %g. "
            "Layer: %s; others with such an epsilon are not named.",
            *(epsilon, SMALLEST_EPSILON, layer),
            key="epsilon of a normalisation",
        )
    return float(epsilon)


def _make_variables(settings: _Variables, channels: int, dtype: tf.DType) -> dict[str, Any]:
    """Makes or finds the variables in the current scope."""
    initializers = dict(settings.initializers or {})
    unknown = sorted(set(initializers) - {"beta", "gamma"})
    if unknown:
        raise ValueError(
            f"param_initializers must have no other keys than beta and gamma. Received: {unknown}"
        )
    wanted = [
        ("beta", settings.center, tf.compat.v1.zeros_initializer()),
        ("gamma", settings.scale, tf.compat.v1.ones_initializer()),
    ]
    return {
        name: tf.compat.v1.get_variable(
            name,
            [channels],
            dtype,
            initializers.get(name) or initializer,
            trainable=settings.trainable,
            collections=_collections(settings.collections, name),
        )
        for name, used, initializer in wanted
        if used
    }


def _collections(collections: Any, name: str) -> list[str]:
    """Returns the graph collections of a variable."""
    if isinstance(collections, Mapping):
        collections = collections.get(name)
    keys = tf.compat.v1.GraphKeys
    # As all layers of TensorFlow 1 do.
    return [keys.GLOBAL_VARIABLES, keys.MODEL_VARIABLES, *(collections or [])]


# --- Group normalization ---

# Reference: Wu and He, "Group Normalization", https://arxiv.org/abs/1803.08494. Layer normalisation
# is that with one group, instance normalisation that with as many groups as channels.


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
            means: the result of `channel_mean`.
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
