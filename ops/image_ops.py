"""Normalization of images: the public module `ipu.image_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.checks import refusals

_CHANNELS = 3
# Type of the image -> type of the result.
_RESULTS = {tf.uint8: tf.float16, tf.float16: tf.float16, tf.float32: tf.float32}


def normalise_image(
    image: Any, channel_offsets: Any, channel_scales: Any, scale: Any = 1, name: str | None = None
) -> tf.Tensor:
    """Normalises the three channels of images and adds a fourth one of zeros.

    Channel c of the result is `(image[c] * scale - channel_offsets[c]) * channel_scales[c]`,
    computed in float32. Differentiable for images of floats.

    Args:
        image: `[..., 3]`, uint8, float16 or float32.
        channel_offsets: `[3]`.
        channel_scales: `[3]`.
        scale: a number, for all channels.
        name: name for the op.

    Returns:
        A tensor `[..., 4]` of the type of the image; of float16 for images of uint8.

    Raises:
        TypeError: If the image has another type.
        tf.errors.InvalidArgumentError: If the image has another number of channels, or the offsets
            or scales have another shape. In a program this is raised when it is compiled.
        ValueError: If the rank of the image is not known, or `scale` is no number.
    """
    image = tf.convert_to_tensor(image)
    if image.dtype not in _RESULTS:
        raise TypeError(
            "normalise_image takes images of the types uint8, float16, float32. Received: "
            f"image of {image.dtype.name}. Cast it with tf.cast."
        )
    if image.shape.rank is None or image.shape.rank < 1:
        raise ValueError(
            "image must have a last dimension, of its channels. Received: image of shape "
            f"{image.shape}"
        )
    with tf.name_scope(name or "normalise_image"):
        offsets, scales = _wide(channel_offsets), _wide(channel_scales)
        scale = _wide(scale)
        if not scale.shape.is_compatible_with([]):
            raise ValueError(f"scale must be a number. Received: scale of shape {scale.shape}")
        wrong = _wrong_shape(image, offsets, scales)
        if wrong:
            return _refused(wrong, image)
        padding = [[0, 0]] * (image.shape.rank - 1) + [[0, 1]]
        wide = tf.cast(tf.pad(image, padding), tf.float32)
        result = (wide * scale - tf.pad(offsets, [[0, 1]])) * tf.pad(scales, [[0, 1]])
        return tf.cast(result, _RESULTS[image.dtype])


def _wide(value: Any) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(value), tf.float32)


def _wrong_shape(image: tf.Tensor, offsets: tf.Tensor, scales: tf.Tensor) -> str | None:
    """Describes the mistake in the shapes; None if there is none."""
    if image.shape[-1] != _CHANNELS:
        return (
            f"The image has {image.shape[-1]} channels, expected {_CHANNELS}. They are its last "
            f"dimension. Received: image of shape {image.shape}"
        )
    for argument, tensor in (("channel_offsets", offsets), ("channel_scales", scales)):
        if not tensor.shape.is_compatible_with([_CHANNELS]):
            size = tensor.shape[0] if tensor.shape.rank == 1 else tensor.shape
            return (
                f"The {argument} must be the same size as the number of image channels "
                f"{_CHANNELS}, but was {size}. Give a number for each channel."
            )
    return None


def _refused(message: str, image: tf.Tensor) -> tf.Tensor:
    """Returns a result that cannot be compiled; outside of programs raises the error at once."""
    error = errors.InvalidArgumentError(None, None, message)
    refusals.raise_outside_program(error)
    shape = tf.concat([tf.shape(image)[:-1], [_CHANNELS + 1]], 0)
    result = tf.zeros(shape, _RESULTS[image.dtype])
    result.set_shape([*image.shape[:-1], _CHANNELS + 1])
    refusals.refuse(result.op, error)
    return result
