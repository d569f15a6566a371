"""Group, instance and layer normalization: the public module `ipu.normalization_ops`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python import tf2

from tensorflow_ipu.ops.nn import group_normalization
from tensorflow_ipu.util.notices import warn_once

__all__ = [
    "group_norm",
    "instance_norm",
    "layer_norm",
]

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
        return group_normalization.normalize(
            inputs,
            parameters.get("gamma"),
            parameters.get("beta"),
            grouping,
            checked_epsilon(epsilon, tf.compat.v1.get_variable_scope().name),
        )


def float_tensor(operation: str, inputs: Any) -> tf.Tensor:
    """Returns inputs as a tensor.

    Args:
        operation: what they are for, for the error.
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
) -> group_normalization.Grouping:
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
    return group_normalization.Grouping(rank, axis, channels, groups, strided)


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
