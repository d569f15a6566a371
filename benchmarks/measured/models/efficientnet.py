"""EfficientNet-B4 with groups of 16 channels, as four stages of a pipeline.

The network of Tan and Le (2019), scaled to B4, with the changes of Masters et al. (2021,
arXiv:2106.03640): groups of 16 channels in the spatial convolutions and an expansion of 4.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python import ipu

from . import layers
from .layers import Stage

_IMAGE, _CLASSES = 380, 1000
_GROUP, _EXPANSION, _NORM_GROUPS = 16, 4, 4
_STEM, _HEAD = 48, 1792
# Expansion, channels, blocks, stride and kernel of each part of B4.
_PARTS = (
    (1, 24, 2, 1, 3),
    (_EXPANSION, 32, 4, 2, 3),
    (_EXPANSION, 56, 4, 2, 5),
    (_EXPANSION, 112, 6, 2, 3),
    (_EXPANSION, 160, 6, 1, 5),
    (_EXPANSION, 272, 8, 2, 5),
    (_EXPANSION, 448, 2, 1, 3),
)
# Parts of each stage.
_STAGES = ((0, 1), (2, 3), (4,), (5, 6))
#: The second block of a part is as all the others behind it.
REPEATS = {index: blocks - 1 for index, (_, _, blocks, _, _) in enumerate(_PARTS)}


def element(micro_batch: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs for one micro-batch."""
    return layers.images(micro_batch, _IMAGE)


def stages(micro_batch: int) -> list[Stage]:
    """Returns the forward stages, with the first two blocks of each part."""
    del micro_batch
    return layers.stages_of([_stage(index) for index in range(len(_STAGES))])


def _stage(index: int) -> Stage:
    def stage(x: tf.Tensor) -> tf.Tensor:
        if index == 0:
            x = _swish_norm(layers.convolution(layers.scaled(x), _STEM, 3, 2, "stem"), "stem_norm")
        for part in _STAGES[index]:
            expansion, channels, _, stride, size = _PARTS[part]
            with tf.compat.v1.variable_scope(f"first_{part}"):
                x = _block(x, expansion, channels, stride, size)
            with tf.compat.v1.variable_scope(f"layer_{part}"):
                x = _block(x, expansion, channels, 1, size)
        if index < len(_STAGES) - 1:
            return x
        x = _swish_norm(layers.convolution(x, _HEAD, 1, 1, "head"), "head_norm")
        return layers.dense(tf.reduce_mean(x, [1, 2]), _CLASSES, "classes")

    return stage


def _block(x: tf.Tensor, expansion: int, channels: int, stride: int, size: int) -> tf.Tensor:
    """An inverted residual block with squeeze and excitation."""
    before, width = x, x.shape[-1] * expansion
    if expansion > 1:
        x = _swish_norm(layers.convolution(x, width, 1, 1, "expand"), "expand_norm")
    # Groups of 16 channels, or of 8 where 16 do not divide them.
    group = _GROUP if width % _GROUP == 0 else _GROUP // 2
    x = layers.convolution(x, width, size, stride, "spatial", groups=width // group)
    x = _swish_norm(x, "spatial_norm")
    x *= _excitation(x, max(1, before.shape[-1] // 4))
    x = layers.group_norm(layers.convolution(x, channels, 1, 1, "project"), _NORM_GROUPS, "norm")
    return x + before if x.shape == before.shape else x


def _excitation(x: tf.Tensor, squeezed: int) -> tf.Tensor:
    mean = tf.reduce_mean(x, [1, 2])
    small = ipu.nn_ops.swish(layers.dense(mean, squeezed, "squeeze"))
    return tf.sigmoid(layers.dense(small, x.shape[-1], "excite"))[:, None, None, :]


def _swish_norm(x: tf.Tensor, name: str) -> tf.Tensor:
    return ipu.nn_ops.swish(layers.group_norm(x, _NORM_GROUPS, name))
