"""Normalization of activations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def _group_spec(specs: shapes.Specs, num_groups: int, **_: Any) -> list[TensorSpec]:
    t, weight, bias = specs
    if t.rank < 2 or num_groups < 1 or t.shape[1] % num_groups:
        raise popart_exception(
            f"GroupNorm: {num_groups} groups must divide the channels, the axis 1 of a tensor of "
            f"the shape {t.shape}."
        )
    if not weight.shape == bias.shape == t.shape[1:2]:
        raise popart_exception(
            f"GroupNorm: weight and bias must have the shape {t.shape[1:2]}. Received: "
            f"{weight.shape} and {bias.shape}"
        )
    statistics = TensorSpec((t.shape[0] * num_groups,), dtypes.float32)
    return [t, statistics, statistics]


def _group_norm(t: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> list[Any]:
    """The result, and the mean and inverse deviation of each group's channels, in float32."""
    samples, channels = t.shape[:2]
    groups = tf.cast(tf.reshape(t, [samples, num_groups, -1]), tf.float32)
    mean = tf.reduce_mean(groups, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(groups - mean), -1, keepdims=True)
    inverse = tf.math.rsqrt(variance + eps)
    normalized = (groups - mean) * inverse
    ones = [1] * (len(t.shape) - 2)
    whole = tf.cast(tf.reshape(normalized, t.shape), t.dtype)
    result = whole * tf.reshape(weight, [channels, *ones]) + tf.reshape(bias, [channels, *ones])
    return [result, tf.reshape(mean, [-1]), tf.reshape(inverse, [-1])]


def _batch_spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    t = specs[0]
    if t.rank < 3:
        raise popart_exception(
            f"BatchNorm: the rank must be at least 3. Received: a tensor of the shape {t.shape}"
        )
    for spec in specs[1:]:
        if spec.shape != t.shape[1:2]:
            raise popart_exception(
                f"BatchNorm: scale, bias, mean and var must have the shape {t.shape[1:2]}. "
                f"Received: {spec.shape}"
            )
    return [t]


def _batch_norm(t: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float) -> Any:
    shape = [-1, *[1] * (len(t.shape) - 2)]
    inverse = tf.math.rsqrt(var + tf.constant(epsilon, var.dtype))
    scaled = tf.cast(tf.reshape(scale * inverse, shape), t.dtype)
    centered = t - tf.cast(tf.reshape(mean, shape), t.dtype)
    return centered * scaled + tf.cast(tf.reshape(bias, shape), t.dtype)


_BATCH_NORM = register(OpKind("BatchNormalization", _batch_spec, _batch_norm, GradientRule.REFUSED))
_GROUP_NORM = register(OpKind("GroupNormalization", _group_spec, _group_norm))


def batch_norm_inference(
    t: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Tensor:
    """Returns a tensor normalized with statistics that are known.

    Args:
        t: the tensor, with the channels in axis 1.
        scale: the factors of the channels.
        bias: the summands of the channels.
        mean: the means of the channels.
        var: the variances of the channels.
        epsilon: a small number, added to the variances.
        momentum: has no effect: the statistics do not change.

    Raises:
        popart.popart_exception: If shapes do not fit.
    """
    return building.add(_BATCH_NORM, t, scale, bias, mean, var, epsilon=epsilon)


def group_norm(
    t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5
) -> Tensor:
    """Returns a tensor normalized over groups of channels of each sample.

    Args:
        t: the tensor, with the samples in axis 0 and the channels in axis 1.
        weight: the factors of the channels.
        bias: the summands of the channels.
        num_groups: into how many groups the channels are divided.
        eps: a small number, added to the variances.

    Raises:
        popart.popart_exception: If the groups do not divide the channels, or shapes do not fit.
    """
    names = [_GROUP_NORM.output_name, "mean", "inverse_standard_deviation"]
    return building.add_all(_GROUP_NORM, [t, weight, bias], names, num_groups=num_groups, eps=eps)[
        0
    ]


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Returns a tensor normalized over all of each sample; `group_norm` with one group.

    Args:
        t: the tensor, with the samples in axis 0. For the last axis alone, flatten the others.
        weight: the factors of axis 1.
        bias: the summands of axis 1.
        eps: a small number, added to the variances.

    Raises:
        popart.popart_exception: If shapes do not fit.
    """
    building.check_in_graph(context.get_current_graph(), [t, weight, bias])
    return group_norm(t, weight, bias, 1, eps)
