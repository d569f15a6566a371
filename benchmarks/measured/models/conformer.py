"""Conformer-M of Gulati et al. (2020) as four stages of a pipeline.

Rows do not say how long utterances are: taken is 12.3 s, the mean of LibriSpeech.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python import ipu

from . import layers
from .layers import Stage
from .resnet import variable

_FRAMES, _FEATURES, _CLASSES = 1228, 80, 5000
_WIDTH, _HEADS, _KERNEL = 256, 4, 31
_STAGES = 4
#: How often the layer of each stage is there: sixteen layers on four IPUs.
REPEATS = dict.fromkeys(range(_STAGES), 4)


def element(micro_batch: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs for one micro-batch."""
    return (
        tf.TensorSpec([micro_batch, _FRAMES, _FEATURES, 1], tf.float16),
        tf.TensorSpec([micro_batch * _FRAMES // 4], tf.int32),
    )


def stages(micro_batch: int) -> list[Stage]:
    """Returns the forward stages, with one layer each.

    Args:
        micro_batch: utterances.
    """

    def first(x: tf.Tensor) -> tf.Tensor:
        for index in range(2):
            x = tf.nn.relu(layers.convolution(x, _WIDTH, 3, 2, f"subsample_{index}"))
        x = tf.reshape(x, [micro_batch * x.shape[1], -1])
        return _layer(layers.dense(x, _WIDTH, "input"), micro_batch, 0)

    def middle(index: int) -> Stage:
        return lambda x: _layer(x, micro_batch, index)

    def last(x: tf.Tensor) -> tf.Tensor:
        return layers.dense(_layer(x, micro_batch, _STAGES - 1), _CLASSES, "classes")

    return layers.stages_of([first, *(middle(i) for i in range(1, _STAGES - 1)), last])


def _layer(x: tf.Tensor, micro_batch: int, index: int) -> tf.Tensor:
    with tf.compat.v1.variable_scope(f"layer_{index}"):
        x += 0.5 * _feed_forward(x, "before")
        normal = layers.layer_norm(x, "attention_norm")
        x += layers.attention(normal, micro_batch, _HEADS, "attention")
        x += _convolution(x, micro_batch)
        x += 0.5 * _feed_forward(x, "after")
        return layers.layer_norm(x, "norm")


def _feed_forward(x: tf.Tensor, name: str) -> tf.Tensor:
    with tf.compat.v1.variable_scope(name):
        wide = layers.dense(layers.layer_norm(x, "norm"), 4 * _WIDTH, "wide")
        return layers.dense(ipu.nn_ops.swish(wide), _WIDTH, "narrow")


def _convolution(x: tf.Tensor, micro_batch: int) -> tf.Tensor:
    """A convolution of each channel by itself, with a gate before it."""
    with tf.compat.v1.variable_scope("convolution"):
        wide = layers.dense(layers.layer_norm(x, "norm"), 2 * _WIDTH, "wide")
        data, gate = tf.split(wide, 2, -1)
        x = tf.reshape(data * tf.sigmoid(gate), [micro_batch, 1, -1, _WIDTH])
        kernel = variable("kernel", [1, _KERNEL, _WIDTH, 1])
        x = tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "SAME")
        x = ipu.nn_ops.swish(layers.batch_norm(x, "channel_norm"))
        return layers.dense(tf.reshape(x, [-1, _WIDTH]), _WIDTH, "narrow")
