"""Operations on images: the public module `ipu.image_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

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
        ValueError: If a shape is another one.
    """
    image = tf.convert_to_tensor(image)
    if image.dtype not in _RESULTS:
        raise TypeError(
            "normalise_image takes images of the types uint8, float16, float32. Received: "
            f"image of {image.dtype.name}. Cast it with tf.cast."
        )
    if image.shape.rank is None or image.shape.rank < 1 or image.shape[-1] != 3:
        raise ValueError(
            "image must have 3 channels as its last dimension. Received: image of shape "
            f"{image.shape}"
        )
    with tf.name_scope(name or "normalise_image"):
        offsets = _four("channel_offsets", channel_offsets)
        scales = _four("channel_scales", channel_scales)
        padding = [[0, 0]] * (image.shape.rank - 1) + [[0, 1]]
        wide = tf.cast(tf.pad(image, padding), tf.float32)
        result = (wide * _wide("scale", scale, []) - offsets) * scales
        return tf.cast(result, _RESULTS[image.dtype])


def _four(argument: str, value: Any) -> tf.Tensor:
    """Returns three values for channels, and a zero for the added one."""
    return tf.pad(_wide(argument, value, [3]), [[0, 1]])


def _wide(argument: str, value: Any, shape: list[int]) -> tf.Tensor:
    tensor = tf.cast(tf.convert_to_tensor(value), tf.float32)
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"{argument} must have the shape {shape}. Received: {argument} of shape {tensor.shape}"
        )
    return tensor
