"""Softmax and normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands, registry, windows
from tensorflow_ipu.frontends.popart.ops.operands import axis_of
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op
from tensorflow_ipu.util.notices import warn_once


def _rows(function: Any) -> Any:
    """Returns a function of tensors seen as matrices: dimensions from an axis on are one."""

    def computed(x: Any, *, axis: int = 1) -> Any:
        axis = axis_of(axis, x.shape.rank) if axis != x.shape.rank else axis
        rows = int(np.prod(x.shape.as_list()[:axis]))
        return tf.reshape(function(tf.reshape(x, [rows, -1])), x.shape)

    return computed


def _unstable_softmax(x: Any) -> Any:
    """Softmax without subtracting the maximum, which overflows for large inputs."""
    powers = tf.exp(x)
    return powers / tf.reduce_sum(powers, -1, True)


@op("Softmax", 1, 11)
def _softmax(x: Any, *, axis: int = 1, context: Any) -> Any:
    unstable = context.numerics.non_stable_softmax
    return _rows(_unstable_softmax if unstable else tf.nn.softmax)(x, axis=axis)


op("LogSoftmax", 1, 11)(_rows(tf.nn.log_softmax))
op("Hardmax", 1, 11)(_rows(lambda x: tf.one_hot(tf.argmax(x, -1), x.shape[-1], dtype=x.dtype)))


def moments(x: Any, axes: Any) -> tuple[Any, Any]:
    """Returns mean and biased variance in float32.

    Args:
        x: the tensor.
        axes: the axes that they are over, which are kept.
    """
    wide = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(wide, axes, True)
    # With tf.math.squared_difference TensorFlow's graph optimizer takes this for an instance
    # normalization of constants, and ends the process where scale and bias are none.
    return mean, tf.reduce_mean(tf.square(wide - mean), axes, True)


def normalized(x: Any, mean: Any, variance: Any, scale: Any, bias: Any, epsilon: float) -> Any:
    """Returns a tensor with a mean and a variance taken out, then scaled and moved.

    Args:
        x: the tensor.
        mean: the mean, in float32.
        variance: the variance, in float32.
        scale: the factor.
        bias: the summand.
        epsilon: is added to the variance.
    """
    wide = (tf.cast(x, tf.float32) - mean) * tf.math.rsqrt(variance + epsilon)
    return tf.cast(wide, x.dtype) * scale + bias


def _batch_normalization(
    inputs: Any,
    epsilon: float,
    momentum: float,
    unbiased: bool,
    spatial: bool,
    outputs: int,
    context: Any,
) -> Any:
    """Returns the outputs of batch normalization: the result alone, or the statistics too."""
    x = inputs[0]
    if x.shape.rank < 4 and spatial:
        raise popart_exception(
            "batch norm requires a rank >= 4 tensor. Received the shape "
            f"{operands.shape_text(x.shape)}."
        )
    for name, tensor in zip(("scale", "B", "mean", "var"), inputs[1:]) if spatial else ():
        if tensor.shape.as_list() != [x.shape[1]]:
            raise popart_exception(
                f"batch norm expected shape of {name} to be [{x.shape[1]}]. Received: "
                f"{operands.shape_text(tensor.shape)}"
            )
    if outputs > 1:
        return batch_normalized(inputs, epsilon, momentum, True, unbiased, spatial)
    if context.is_training:
        warn_once(
            "The BatchNormalization %s has 1 output, which means it is in inference mode, "
            "though the session trains.",
            context.node.output[0],
        )
    refusal = (
        "BatchNormalization has 1 output, which means it is in inference mode, and has no "
        "gradient. Give it 5 outputs to train. To use the BatchNorm Op in inference mode "
        "during training, it has to be detached first."
    )
    return batch_normalized(inputs, epsilon, spatial=spatial, refusal=refusal)


def batch_normalized(
    inputs: Sequence[Any],
    epsilon: float,
    momentum: float = 0.0,
    trains: bool = False,
    unbiased: bool = False,
    spatial: bool = True,
    refusal: str = "",
) -> list[Any]:
    """Returns the result of batch normalization, and if it trains running and saved statistics.

    Args:
        inputs: the tensor, scale, bias, mean and variance.
        epsilon: is added to the variance.
        momentum: share of the former statistics that stays.
        trains: whether to use the statistics of the batch.
        unbiased: whether the saved variance is an estimate of that of all samples.
        spatial: whether there is one number for each channel, and not for each element.
        refusal: why there is no gradient without training; empty if there is one.
    """
    x, scale, bias, mean, variance = inputs
    last = windows.last_of(x) if spatial else None
    axes = [0, *range(2, x.shape.rank)] if spatial else [0]
    shape = [1, -1, *[1] * (x.shape.rank - 2)] if spatial else [1, *x.shape.as_list()[1:]]
    if last is not None:
        x, axes, shape = last, list(range(x.shape.rank - 1)), [*[1] * (x.shape.rank - 1), -1]
    finished = windows.channels_second if last is not None else tf.identity
    scale, bias = (tf.cast(tf.reshape(v, shape), x.dtype) for v in (scale, bias))
    if not trains:
        mean, variance = (tf.cast(tf.reshape(v, shape), tf.float32) for v in (mean, variance))
        result = normalized(x, mean, variance, scale, bias, epsilon)
        return [finished(registry.with_refused_gradient(result, refusal) if refusal else result)]
    found, spread = moments(x, axes)
    result = normalized(x, found, spread, scale, bias, epsilon)
    count = np.prod([x.shape[axis] for axis in axes])
    kept = spread * (count / max(1, count - 1)) if unbiased else spread
    saved = [tf.reshape(value, mean.shape) for value in (found, kept)]
    running = [
        tf.cast(momentum * tf.cast(old, tf.float32) + (1 - momentum) * new, old.dtype)
        for old, new in zip((mean, variance), saved)
    ]
    return [finished(result), *running, *(tf.cast(value, mean.dtype) for value in saved)]


@op("BatchNormalization", 6)
def _batch_normalization_6(
    *inputs: Any,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
    context: Any,
) -> Any:
    count = 1 if is_test else context.output_count
    return _batch_normalization(inputs, epsilon, momentum, False, bool(spatial), count, context)


@op("BatchNormalization", 7)
def _batch_normalization_7(
    *inputs: Any, epsilon: float = 1e-5, momentum: float = 0.9, spatial: int = 1, context: Any
) -> Any:
    return _batch_normalization(
        inputs, epsilon, momentum, False, bool(spatial), context.output_count, context
    )


@op("BatchNormalization", 9)
def _batch_normalization_9(
    *inputs: Any, epsilon: float = 1e-5, momentum: float = 0.9, context: Any
) -> Any:
    return _batch_normalization(
        inputs, epsilon, momentum, False, True, context.output_count, context
    )


@op("BatchNormalization", 1, domain=GRAPHCORE)
def _batch_normalization_graphcore(
    *inputs: Any, epsilon: float = 1e-5, momentum: float = 0.9, context: Any
) -> Any:
    return _batch_normalization(
        inputs, epsilon, momentum, True, True, context.output_count, context
    )


@op("InstanceNormalization", 1, 6)
def _instance_normalization(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    mean, variance = moments(x, list(range(2, x.shape.rank)))
    shape = [1, -1, *[1] * (x.shape.rank - 2)]
    return normalized(x, mean, variance, tf.reshape(scale, shape), tf.reshape(bias, shape), epsilon)


@op("GroupNormalization", 1, domain=GRAPHCORE)
def _group_normalization(
    x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5, context: Any
) -> Any:
    n, c = x.shape.as_list()[:2]
    if c % num_groups:
        raise popart_exception(
            f"GroupNormalization: {c} channels cannot be divided into {num_groups} groups."
        )
    is_strided = context.numerics.strided_groups
    grouped = _strided(x, c // num_groups) if is_strided else x
    grouped = tf.reshape(grouped, [n * num_groups, -1])
    mean, variance = moments(grouped, [1])
    inverse = tf.math.rsqrt(variance + epsilon)
    wide = (tf.cast(grouped, tf.float32) - mean) * inverse
    shape = [1, -1, *[1] * (x.shape.rank - 2)]
    result = tf.reshape(tf.cast(wide, x.dtype), x.shape)
    result = _strided(result, num_groups) if is_strided else result
    result = result * tf.reshape(scale, shape) + tf.reshape(bias, shape)
    statistics = (tf.cast(tf.reshape(value, [-1]), x.dtype) for value in (mean, inverse))
    return [result, *statistics]


def _strided(x: Any, count: int) -> Any:
    """Returns the channels in another order: those with the same rest by a number of groups."""
    n, c = x.shape.as_list()[:2]
    parts = tf.reshape(x, [n, count, c // count, -1])
    return tf.reshape(tf.transpose(parts, [0, 2, 1, 3]), x.shape)
