"""ViT-Base of Dosovitskiy et al. (2020), patches of 16 x 16, as four stages of a pipeline."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python import ipu

from . import layers
from .layers import Stage
from .resnet import variable

_IMAGE, _PATCH, _CLASSES = 224, 16, 1000
_WIDTH, _HEADS = 768, 12
_DROPOUT = 0.1
_STAGES = 4
#: How often the layer of each stage is there: twelve layers on four IPUs.
REPEATS = dict.fromkeys(range(_STAGES), 3)


def element(micro_batch: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs for one micro-batch."""
    return layers.images(micro_batch, _IMAGE)


def stages(micro_batch: int) -> list[Stage]:
    """Returns the forward stages, with one layer each.

    Args:
        micro_batch: images.
    """

    def first(x: tf.Tensor) -> tf.Tensor:
        return _layer(_embed(x, micro_batch), micro_batch, 0)

    def middle(index: int) -> Stage:
        return lambda x: _layer(x, micro_batch, index)

    def last(x: tf.Tensor) -> tf.Tensor:
        x = layers.layer_norm(_layer(x, micro_batch, _STAGES - 1), "norm")
        x = tf.reshape(x, [micro_batch, -1, _WIDTH])
        return layers.dense(x[:, 0], _CLASSES, "head")

    return layers.stages_of([first, *(middle(i) for i in range(1, _STAGES - 1)), last])


def _embed(images: tf.Tensor, micro_batch: int) -> tf.Tensor:
    x = layers.convolution(layers.scaled(images), _WIDTH, _PATCH, _PATCH, "patches")
    x = tf.reshape(x, [micro_batch, -1, _WIDTH])
    token = tf.tile(variable("token", [1, 1, _WIDTH]), [micro_batch, 1, 1])
    x = tf.concat([token, x], 1)
    x += variable("positions", [x.shape[1], _WIDTH])
    return tf.reshape(x, [-1, _WIDTH])


def _layer(x: tf.Tensor, micro_batch: int, index: int) -> tf.Tensor:
    with tf.compat.v1.variable_scope(f"layer_{index}"):
        attended = layers.attention(
            layers.layer_norm(x, "attention_norm"), micro_batch, _HEADS, "attention"
        )
        x += ipu.rand_ops.dropout(attended, rate=_DROPOUT)
        wide = ipu.nn_ops.gelu(layers.dense(layers.layer_norm(x, "norm"), 4 * _WIDTH, "wide"))
        return x + ipu.rand_ops.dropout(layers.dense(wide, _WIDTH, "narrow"), rate=_DROPOUT)
