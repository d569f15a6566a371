"""ResNet-50 v1.5 as stages of a pipeline, float16, for `programs.compile_pipeline`.

The network of He et al. (2015) with the stride of a block in its 3x3 convolution. Images arrive as
8-bit integers, as in the submissions to MLPerf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python import ipu

# Filters and blocks of each part.
_PARTS = ((64, 3), (128, 4), (256, 6), (512, 3))
_EXPANSION = 4
_IMAGE = 224
_CLASSES = 1000
_STAGES = 4

Stage = Callable[..., Any]


def element(micro_batch: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs for one micro-batch."""
    return (
        tf.TensorSpec([micro_batch, _IMAGE, _IMAGE, 3], tf.uint8),
        tf.TensorSpec([micro_batch], tf.int32),
    )


def stages() -> list[Stage]:
    """Returns the forward stages: one for each part, the first with the stem, the last the loss."""
    return [_stage(index) for index in range(_STAGES)]


def _stage(index: int) -> Stage:
    def stage(x: tf.Tensor, labels: tf.Tensor) -> Any:
        with tf.compat.v1.variable_scope(f"part_{index}"):
            if index == 0:
                x = _stem(x)
            filters, blocks = _PARTS[index]
            for block in range(blocks):
                stride = 2 if block == 0 and index > 0 else 1
                with tf.compat.v1.variable_scope(f"block_{block}"):
                    x = _block(x, filters, stride, project=block == 0)
                    # Recomputation from checkpoints: Graphcore's account of its MLPerf v1.1 runs.
                    x = ipu.pipelining_ops.recomputation_checkpoint(x)
            return _loss(x, labels) if index == _STAGES - 1 else (x, labels)

    stage.__name__ = f"part_{index}"
    return stage


def _stem(images: tf.Tensor) -> tf.Tensor:
    x = (tf.cast(images, tf.float16) - 120.0) * (1 / 60)
    x = _convolution(x, 64, 7, 2, "stem")
    return tf.nn.max_pool2d(tf.nn.relu(x), 3, 2, "SAME")


def _block(x: tf.Tensor, filters: int, stride: int, project: bool) -> tf.Tensor:
    shortcut = x
    if project:
        shortcut = _convolution(x, filters * _EXPANSION, 1, stride, "shortcut")
    x = tf.nn.relu(_convolution(x, filters, 1, 1, "reduce"))
    x = tf.nn.relu(_convolution(x, filters, 3, stride, "spatial"))
    x = _convolution(x, filters * _EXPANSION, 1, 1, "expand")
    return tf.nn.relu(x + shortcut)


def _convolution(x: tf.Tensor, filters: int, size: int, stride: int, name: str) -> tf.Tensor:
    """Convolution and batch normalisation."""
    with tf.compat.v1.variable_scope(name):
        kernel = variable("kernel", [size, size, x.shape[-1], filters])
        x = tf.nn.conv2d(x, kernel, stride, "SAME")
        gamma = variable("gamma", [filters], tf.float32)
        beta = variable("beta", [filters], tf.float32)
        return tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, is_training=True)[0]


def _loss(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    x = tf.reduce_mean(x, [1, 2])
    logits = tf.matmul(x, variable("dense", [x.shape[-1], _CLASSES])) + variable("bias", [_CLASSES])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
    return tf.reduce_mean(losses)


def variable(name: str, shape: list[int], dtype: Any = tf.float16) -> Any:
    """Returns a variable of the current scope. Its values do not matter: nothing runs."""
    return tf.compat.v1.get_variable(
        name, shape, dtype, tf.compat.v1.zeros_initializer(), use_resource=True
    )
