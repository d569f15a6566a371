"""ResNeXt-101 32x4d of Xie et al. (2016), as four sequential stages on one IPU."""

from __future__ import annotations

import tensorflow as tf

from . import layers
from .layers import Stage

_IMAGE, _CLASSES = 224, 1000
_GROUPS = 32
# Width within a block and blocks of each part; the result has twice the width.
_PARTS = ((128, 3), (256, 4), (512, 23), (1024, 3))
#: The second block of a part is as all the others behind it.
REPEATS = {index: blocks - 1 for index, (_, blocks) in enumerate(_PARTS)}


def element(micro_batch: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs for one micro-batch."""
    return layers.images(micro_batch, _IMAGE)


def stages(micro_batch: int) -> list[Stage]:
    """Returns the forward stages, with the first two blocks of each part."""
    del micro_batch
    return layers.stages_of([_stage(index) for index in range(len(_PARTS))])


def _stage(index: int) -> Stage:
    def stage(x: tf.Tensor) -> tf.Tensor:
        if index == 0:
            x = tf.nn.relu(_conv_norm(layers.scaled(x), 64, 7, 2, "stem"))
            x = tf.nn.max_pool2d(x, 3, 2, "SAME")
        width, _ = _PARTS[index]
        with tf.compat.v1.variable_scope(f"first_{index}"):
            x = _block(x, width, 1 if index == 0 else 2)
        with tf.compat.v1.variable_scope(f"layer_{index}"):
            x = _block(x, width, 1)
        if index < len(_PARTS) - 1:
            return x
        return layers.dense(tf.reduce_mean(x, [1, 2]), _CLASSES, "classes")

    return stage


def _block(x: tf.Tensor, width: int, stride: int) -> tf.Tensor:
    shortcut = x
    if x.shape[-1] != 2 * width:
        shortcut = _conv_norm(x, 2 * width, 1, stride, "shortcut")
    x = tf.nn.relu(_conv_norm(x, width, 1, 1, "reduce"))
    x = tf.nn.relu(_conv_norm(x, width, 3, stride, "spatial", _GROUPS))
    return tf.nn.relu(_conv_norm(x, 2 * width, 1, 1, "expand") + shortcut)


def _conv_norm(
    x: tf.Tensor, filters: int, size: int, stride: int, name: str, groups: int = 1
) -> tf.Tensor:
    return layers.batch_norm(
        layers.convolution(x, filters, size, stride, name, groups), f"{name}_norm"
    )
