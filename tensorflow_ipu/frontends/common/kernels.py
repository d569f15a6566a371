"""Kernels of both front ends: arithmetic, dilation, interpolation and averages of regions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# --- Arithmetic and dilation ---


def widened(t: Any) -> Any:
    """Casts a tensor, without rounding, to a type that all kernels of TensorFlow take.

    Args:
        t: the tensor: floats, signed or unsigned integers.
    """
    if t.dtype.is_integer:
        return t if t.dtype == tf.int32 else tf.cast(t, tf.int64)
    return tf.cast(t, tf.float32)


def descending(t: Any) -> Any:
    """Reverses the order of the elements' values; applied twice, returns the tensor itself.

    Args:
        t: the tensor. Integers are inverted bit by bit: the least one has no negative.
    """
    return tf.bitwise.invert(t) if t.dtype.is_integer else -t


def remainder(lhs: Any, rhs: Any) -> Any:
    """Returns the remainder with the sign of the dividend.

    Args:
        lhs: the dividend.
        rhs: the divisor, of the same type.
    """
    return tf.cast(tf.truncatemod(widened(lhs), widened(rhs)), lhs.dtype)


def power(t: Any, exponent: Any) -> Any:
    """Raises a tensor, of floats or integers, to a power.

    Args:
        t: the base.
        exponent: the exponent, of the same type.
    """
    if t.dtype.is_integer:
        return tf.cast(tf.pow(widened(t), widened(exponent)), t.dtype)
    return tf.pow(t, exponent)


def dilated(kernel: Any, dilation: Sequence[int]) -> Any:
    """Dilates the kernel of a convolution: puts zeros between its elements.

    Args:
        kernel: the kernel, spatial axes first.
        dilation: distances between its elements, one for each spatial axis.
    """
    for axis, distance in enumerate(dilation):
        size = kernel.shape[axis]
        before, after = kernel.shape[:axis], kernel.shape[axis + 1 :]
        parts = tf.reshape(kernel, [*before, size, 1, *after])
        pads = [(0, distance - 1) if i == axis + 1 else (0, 0) for i in range(len(parts.shape))]
        whole = tf.reshape(tf.pad(parts, pads), [*before, size * distance, *after])
        kernel = whole[(*[slice(None)] * axis, slice(distance * (size - 1) + 1))]
    return kernel


# --- Resampling ---

#: Default coefficient of cubic interpolation.
SHARPNESS = -0.75


#: Rounds positions of the result to positions of the tensor, by the mode of "nearest".
ROUNDING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def interpolated(
    t: Any,
    scale_factor: Sequence[float],
    mode: str,
    nearest_mode: str,
    coordinates: str,
    sizes: Sequence[int] | None = None,
    sharpness: float = SHARPNESS,
) -> Any:
    """Interpolates a TensorFlow tensor along one axis after the other; floats are rounded once.

    Args:
        t: the tensor.
        scale_factor: growth of each axis.
        mode: "nearest", "linear" or "cubic".
        nearest_mode: the key of `ROUNDING`.
        coordinates: how positions of the result map to the tensor: "half_pixel",
            "pytorch_half_pixel", "align_corners", "asymmetric" or "tf_half_pixel_for_nn".
        sizes: sizes of the result; by default the sizes of `t` times the scales, rounded down.
        sharpness: coefficient of cubic interpolation.
    """
    wide = tf.cast(t, tf.float32) if t.dtype == tf.float16 and mode != "nearest" else t
    for axis, scale in enumerate(scale_factor):
        size = t.shape[axis]
        count = math.floor(size * scale) if sizes is None else sizes[axis]
        if scale == 1 and count == size:
            continue
        parts = []
        sources = _sources(size, scale, coordinates, count)
        for places, weights in _taps(sources, mode, nearest_mode, sharpness):
            inside = np.clip(places, 0, size - 1).astype(np.int32)
            part = tf.gather(wide, tf.constant(inside), axis=axis)
            if mode != "nearest":
                form = [-1 if i == axis else 1 for i in range(len(t.shape))]
                part *= tf.constant(weights.reshape(form), wide.dtype)
            parts.append(part)
        wide = parts[0] if len(parts) == 1 else tf.add_n(parts)
    return tf.cast(wide, t.dtype)


def _sources(size: int, scale: float, how: str, count: int) -> np.ndarray:
    """Returns the position of each element of the result along the axis of the tensor."""
    length = size * scale
    x = np.arange(count, dtype=np.float64)
    if how == "asymmetric":
        return x / scale
    if how == "align_corners":
        return x * 0 if length == 1 else x * (size - 1) / (length - 1)
    if how == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if how == "pytorch_half_pixel" and length <= 1:
        return x * 0
    # In float32, as the reciprocal of the scale.
    half, step = np.float32(0.5), np.float32(1 / scale)
    return (x.astype(np.float32) + half) * step - half


def _taps(
    x: np.ndarray, mode: str, nearest_mode: str, sharpness: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the taps of each element of the result: source positions and weights."""
    if mode == "nearest":
        return [(ROUNDING[nearest_mode](x), np.ones_like(x))]
    if mode == "linear":
        x = np.maximum(x, 0)
        rest = x - np.floor(x)
        return [(np.floor(x), 1 - rest), (np.ceil(x), rest)]
    rest = x - np.floor(x)
    return [(np.floor(x) + tap, _cubic(np.abs(rest - tap), sharpness)) for tap in (-1, 0, 1, 2)]


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    """Returns the cubic weights of elements at distances up to 2."""
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    return np.where(d <= 1, near, a * (d**3 - 5 * d**2 + 8 * d - 4))


def region_averages(
    t: Any,
    rois: Any,
    batch_index: Any,
    output_size: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    is_shifted: bool = False,
) -> Any:
    """Averages bilinear samples of regions of images (RoiAlign).

    Only the images have a gradient.

    Args:
        t: the images: samples, channels, rows and columns.
        rois: for each region its first column, first row, last column and last row.
        batch_index: the image of each region.
        output_size: rows and columns of the result.
        spatial_scale: factor from coordinates of regions to pixels.
        sampling_ratio: samples along each axis for one element of the result.
        is_shifted: whether coordinates count from edges of pixels instead of centers; regions may
            then be smaller than a pixel.
    """
    count, channels = rois.shape[0], t.shape[1]
    high, wide = output_size
    scaled = tf.stop_gradient(tf.cast(rois, tf.float32)) * spatial_scale
    scaled = scaled - 0.5 if is_shifted else scaled
    columns = _samples(scaled[:, 0], scaled[:, 2], wide, sampling_ratio, t.shape[3], is_shifted)
    rows = _samples(scaled[:, 1], scaled[:, 3], high, sampling_ratio, t.shape[2], is_shifted)
    images = tf.gather(tf.cast(t, tf.float32), tf.cast(batch_index, tf.int32))
    # Rows, then columns: the weights of an element are the product of both.
    images = tf.add_n([_weighted(images, 2, *tap) for tap in rows])
    images = tf.add_n([_weighted(images, 3, *tap) for tap in columns])
    samples = tf.reshape(images, [count, channels, high, sampling_ratio, wide, sampling_ratio])
    return tf.cast(tf.reduce_mean(samples, [3, 5]), t.dtype)


def _samples(
    start: Any, end: Any, bins: int, ratio: int, size: int, is_shifted: bool
) -> tuple[Any, ...]:
    """Returns the two neighbors of each sample along one axis, and their weights."""
    length = end - start if is_shifted else tf.maximum(end - start, 1.0)
    steps = (tf.range(bins * ratio, dtype=tf.float32) + 0.5) / (bins * ratio)
    x = start[:, tf.newaxis] + length[:, tf.newaxis] * steps
    inside = tf.cast(tf.logical_and(x >= -1.0, x <= size), tf.float32)
    x = tf.clip_by_value(x, 0.0, size - 1.0)
    low = tf.floor(x)
    rest = x - low
    first = tf.cast(low, tf.int32)
    second = tf.minimum(first + 1, size - 1)
    return (first, (1.0 - rest) * inside), (second, rest * inside)


def _weighted(images: Any, axis: int, places: Any, weights: Any) -> Any:
    """Gathers elements of each image along an axis and weights them."""
    swapped = tf.transpose(images, [0, axis, 1, 5 - axis])
    found = tf.gather(swapped, places, axis=1, batch_dims=1) * weights[:, :, tf.newaxis, tf.newaxis]
    return tf.transpose(found, [0, 2, 1, 3] if axis == 2 else [0, 2, 3, 1])
