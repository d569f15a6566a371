"""U-Net of Ronneberger et al. (2015) for medical images, as four stages of a pipeline."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from . import layers
from .layers import Stage
from .resnet import variable

_IMAGE, _CLASSES = 572, 2
_WIDTHS = (64, 128, 256, 512, 1024)
# The labels are of the pixels that remain when no convolution pads.
_RESULT = 388
#: No layer is as another.
REPEATS: dict[int, int] = {}


def element(micro_batch: int) -> tuple[tf.TensorSpec, ...]:
    """Returns the infeed's specs for one micro-batch."""
    return (
        tf.TensorSpec([micro_batch, _IMAGE, _IMAGE, 1], tf.float16),
        tf.TensorSpec([micro_batch, _RESULT, _RESULT], tf.int32),
    )


def stages(micro_batch: int) -> list[Stage]:
    """Returns the forward stages: two of the way down, two of the way up."""
    del micro_batch

    def upper_down(x: tf.Tensor, labels: tf.Tensor) -> Any:
        one = _pair(x, 0, "down")
        two = _pair(_halved(one), 1, "down")
        return _halved(two), _cropped(one, 392), _cropped(two, 200), labels

    def lower_down(x: tf.Tensor, one: tf.Tensor, two: tf.Tensor, labels: tf.Tensor) -> Any:
        three = _pair(x, 2, "down")
        four = _pair(_halved(three), 3, "down")
        x = _pair(_halved(four), 4, "down")
        return x, one, two, _cropped(three, 104), _cropped(four, 56), labels

    def lower_up(x: tf.Tensor, *skipped: tf.Tensor) -> Any:
        one, two, three, four, labels = skipped
        x = _up(_up(x, four, 3), three, 2)
        return x, one, two, labels

    def upper_up(x: tf.Tensor, one: tf.Tensor, two: tf.Tensor, labels: tf.Tensor) -> Any:
        x = _up(_up(x, two, 1), one, 0)
        x = layers.convolution(x, _CLASSES, 1, 1, "classes")
        return layers.cross_entropy(tf.reshape(x, [-1, _CLASSES]), tf.reshape(labels, [-1]))

    return [upper_down, lower_down, lower_up, upper_up]


def _pair(x: tf.Tensor, level: int, name: str) -> tf.Tensor:
    """Two convolutions of 3 x 3 that do not pad."""
    for index in range(2):
        with tf.compat.v1.variable_scope(f"{name}_{level}_{index}"):
            kernel = variable("kernel", [3, 3, x.shape[-1], _WIDTHS[level]])
            x = tf.nn.conv2d(x, kernel, 1, "VALID") + variable("bias", [_WIDTHS[level]])
            x = tf.nn.relu(x)
    return x


def _halved(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.max_pool2d(x, 2, 2, "VALID")


def _cropped(x: tf.Tensor, size: int) -> tf.Tensor:
    start = (x.shape[1] - size) // 2
    return x[:, start : start + size, start : start + size]


def _up(x: tf.Tensor, skipped: tf.Tensor, level: int) -> tf.Tensor:
    """Upsamples by two and concatenates the skip connection of the same level."""
    batch, size, _, width = x.shape
    with tf.compat.v1.variable_scope(f"up_{level}"):
        kernel = variable("kernel", [2, 2, _WIDTHS[level], width])
        shape = [batch, 2 * size, 2 * size, _WIDTHS[level]]
        x = tf.nn.conv2d_transpose(x, kernel, shape, 2, "VALID")
    return _pair(tf.concat([skipped, x], -1), level, "up")
