"""Layers that several models share, float16 with normalization in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python import ipu

from .resnet import variable

Stage = Callable[..., Any]

_EPSILON = 1e-3


def images(micro_batch: int, size: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the element of square images of 8 bits and their labels.

    Args:
        micro_batch: images.
        size: pixels of a side.
    """
    return (
        tf.TensorSpec([micro_batch, size, size, 3], tf.uint8),
        tf.TensorSpec([micro_batch], tf.int32),
    )


def scaled(pixels: tf.Tensor) -> tf.Tensor:
    """Returns images of 8 bits as float16 around 0."""
    return (tf.cast(pixels, tf.float16) - 120.0) * (1 / 60)


def dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """Returns the product with a matrix of weights, and the bias added.

    Args:
        x: [..., features].
        units: features of the result.
        name: scope of the variables.
    """
    with tf.compat.v1.variable_scope(name):
        return tf.matmul(x, variable("kernel", [x.shape[-1], units])) + variable("bias", [units])


def layer_norm(x: tf.Tensor, name: str) -> tf.Tensor:
    """Returns [rows, features] normalized over the features."""
    return ipu.normalization_ops.layer_norm(x, scope=name, epsilon=_EPSILON)


def convolution(
    x: tf.Tensor, filters: int, size: int, stride: int, name: str, groups: int = 1
) -> tf.Tensor:
    """Returns the convolution of [N, H, W, C] with zeros around it.

    Args:
        x: input.
        filters: channels of the result.
        size: of the square kernel.
        stride: in both directions.
        name: scope of the kernel.
        groups: of channels, each with filters of its own.
    """
    with tf.compat.v1.variable_scope(name):
        kernel = variable("kernel", [size, size, x.shape[-1] // groups, filters])
        return tf.nn.conv2d(x, kernel, stride, "SAME")


def batch_norm(x: tf.Tensor, name: str) -> tf.Tensor:
    """Returns [N, H, W, C] normalized over all but the channels."""
    with tf.compat.v1.variable_scope(name):
        gamma, beta = (variable(part, [x.shape[-1]], tf.float32) for part in ("gamma", "beta"))
        return tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, is_training=True)[0]


def group_norm(x: tf.Tensor, groups: int, name: str) -> tf.Tensor:
    """Returns [N, H, W, C] normalized over groups of channels of each image."""
    return ipu.normalization_ops.group_norm(x, groups=groups, scope=name, epsilon=_EPSILON)


def attention(x: tf.Tensor, batch: int, heads: int, name: str) -> tf.Tensor:
    """Returns multi-head attention of sequences to themselves, with its projections.

    Args:
        x: [batch * length, features].
        batch: sequences.
        heads: which divide the features.
        name: scope of the variables.
    """
    features = x.shape[-1]
    length, size = x.shape[0] // batch, features // heads
    with tf.compat.v1.variable_scope(name):
        mixed = tf.reshape(dense(x, 3 * features, "qkv"), [batch, length, 3, heads, size])
        query, key, value = tf.unstack(tf.transpose(mixed, [2, 0, 3, 1, 4]))
        scores = tf.matmul(query, key, transpose_b=True) * size**-0.5
        context = tf.matmul(tf.nn.softmax(scores), value)
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [batch * length, features])
        return dense(context, features, "output")


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the mean loss of a classification, float32."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
    return tf.reduce_mean(losses)


def stages_of(parts: list[Stage]) -> list[Stage]:
    """Returns the parts of a network as pipeline stages of data and labels, the last with the loss.

    Args:
        parts: functions of a tensor; the last returns logits.
    """

    def make(index: int) -> Stage:
        def stage(x: tf.Tensor, labels: tf.Tensor) -> Any:
            x = parts[index](x)
            return cross_entropy(x, labels) if index == len(parts) - 1 else (x, labels)

        stage.__name__ = f"part_{index}"
        return stage

    return [make(index) for index in range(len(parts))]
