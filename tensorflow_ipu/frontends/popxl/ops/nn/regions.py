"""Regions of interest in images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def _roi_spec(
    specs: shapes.Specs, output_size: tuple[int, int], sampling_ratio: int, **_: Any
) -> list[TensorSpec]:
    t, rois, batch_index = specs
    for name, spec, rank in (("t", t, 4), ("rois", rois, 2), ("batch_index", batch_index, 1)):
        if spec.rank != rank:
            raise popart_exception(
                f"RoiAlign: {name} must have rank {rank}. Received: a tensor of the shape "
                f"{spec.shape}"
            )
    if rois.shape != (batch_index.shape[0], 4):
        raise popart_exception(
            f"RoiAlign: rois must have the shape {(batch_index.shape[0], 4)}, for the batch index "
            f"of {batch_index.shape[0]} regions. Received: {rois.shape}"
        )
    if sampling_ratio < 1 or len(output_size) != 2 or min(output_size) < 1:
        raise popart_exception(
            "RoiAlign: sampling_ratio must be at least 1, and output_size two sizes. Received: "
            f"{sampling_ratio} and {output_size}"
        )
    return [t.with_shape((rois.shape[0], t.shape[1], *output_size))]


def _samples(
    start: Any, end: Any, bins: int, ratio: int, size: int, is_shifted: bool
) -> tuple[Any, ...]:
    """Returns for the samples along one axis the two elements around each, and their weights."""
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


def aligned(
    t: Any,
    rois: Any,
    batch_index: Any,
    output_size: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    is_shifted: bool = False,
) -> Any:
    """Averages samples of TensorFlow tensors, each between four elements.

    Only the images have a gradient.

    Args:
        t: as for `roi_align`.
        rois: as for `roi_align`.
        batch_index: as for `roi_align`.
        output_size: as for `roi_align`.
        spatial_scale: as for `roi_align`.
        sampling_ratio: as for `roi_align`.
        is_shifted: whether the numbers of regions count from the edges of pixels instead of their
            centers; regions may then be smaller than a pixel.
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


def _weighted(images: Any, axis: int, places: Any, weights: Any) -> Any:
    """Returns elements of each image along an axis, times their weights."""
    swapped = tf.transpose(images, [0, axis, 1, 5 - axis])
    found = tf.gather(swapped, places, axis=1, batch_dims=1) * weights[:, :, tf.newaxis, tf.newaxis]
    return tf.transpose(found, [0, 2, 1, 3] if axis == 2 else [0, 2, 3, 1])


_ROI_ALIGN = register(OpKind("RoiAlign", _roi_spec, aligned))


def roi_align(
    t: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
) -> Tensor:
    """Returns regions of images, each averaged to one size.

    Args:
        t: the images: samples, channels, rows and columns.
        rois: for each region its first column, first row, last column and last row.
        batch_index: the image of each region.
        output_size: rows and columns of the result.
        spatial_scale: what the numbers of the regions are multiplied by.
        sampling_ratio: samples along each axis for one element of the result.

    Returns:
        For each region its channels, rows and columns.

    Raises:
        popart.popart_exception: If shapes do not fit, or there are no samples.
    """
    return building.add(
        _ROI_ALIGN,
        t,
        rois,
        batch_index,
        output_size=tuple(output_size),
        spatial_scale=float(spatial_scale),
        sampling_ratio=sampling_ratio,
    )
