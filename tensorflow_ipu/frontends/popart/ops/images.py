"""Ops on images: normalization, sampling on grids, resizing and regions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import registry
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op


@op("NormalizeImage", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _normalize_image(image: Any, offsets: Any, scales: Any, *, scale: float = 1.0) -> Any:
    if image.dtype not in (tf.uint8, tf.float16, tf.float32) or image.shape[-1] != 3:
        raise popart_exception(
            "NormalizeImage takes images of UINT8, FLOAT16 or FLOAT with 3 channels last. "
            f"Received: {image.dtype.name} {image.shape.as_list()}"
        )
    for name, tensor in (("offsets", offsets), ("scales", scales)):
        if tensor.shape.as_list() != [3]:
            raise popart_exception(
                f"NormalizeImage: the {name} must have the shape [3]. Received: {tensor.shape}"
            )
    type_ = tf.float16 if image.dtype == tf.uint8 else image.dtype
    wide, offsets, scales = (tf.cast(tensor, tf.float32) for tensor in (image, offsets, scales))
    normal = (wide * scale - offsets) * scales
    padding = [(0, 0)] * (image.shape.rank - 1) + [(0, 1)]
    return tf.cast(tf.pad(normal, padding), type_)


_PADDINGS = ("zeros", "border", "reflection")
# Sharpness of cubic interpolation.
_A = -0.75


@op("AffineGrid", 20, 22, known=(1,))
def _affine_grid(theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    sizes = [int(number) for number in np.reshape(size, [-1])]
    rank = len(sizes) - 2
    if rank not in (2, 3) or theta.shape.as_list() != [sizes[0], rank, rank + 1]:
        raise popart_exception(
            "AffineGrid takes matrices [n, 2, 3] and a size [n, c, height, width], or [n, 3, 4] "
            f"and one with a depth. Received: {theta.shape.as_list()} and {sizes}"
        )
    axes = [_centers(count, bool(align_corners)) for count in sizes[2:]]
    places = [*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(sizes[2:])]
    flat = tf.constant(np.stack(places).reshape(rank + 1, -1), theta.dtype)
    grid = tf.transpose(tf.tensordot(theta, flat, 1), [0, 2, 1])
    return tf.reshape(grid, [sizes[0], *sizes[2:], rank])


def _centers(count: int, align_corners: bool) -> np.ndarray:
    """Returns the places of pixels in an image that reaches from -1 to 1."""
    if align_corners:
        return np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
    return (2 * np.arange(count) + 1) / count - 1


@op("GridSample", 16)
def _grid_sample_16(
    x: Any,
    grid: Any,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Any:
    _check("mode", mode, ("bilinear", "nearest", "bicubic"))
    return _sampled(x, grid, mode.removeprefix("bi"), padding_mode, bool(align_corners))


@op("GridSample", 20, 22)
def _grid_sample(
    x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    _check("mode", mode, ("linear", "nearest", "cubic"))
    return _sampled(x, grid, mode, padding_mode, bool(align_corners))


def _check(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise popart_exception(
            f"GridSample: the {name} {value} is not supported. Expected one of: {', '.join(known)}."
        )


def _sampled(x: Any, grid: Any, mode: str, padding: str, align_corners: bool) -> Any:
    """Returns the values of images at places, as PyTorch interpolates and pads them.

    Args:
        x: the images, [n, channels, sizes].
        grid: the places, [n, sizes of the result, coordinates], the last axis of images first.
        mode: "linear", "nearest" or "cubic".
        padding: values around an image, one of `_PADDINGS`.
        align_corners: whether -1 and 1 are the centers of the outermost pixels, not their edges.
    """
    _check("padding_mode", padding, _PADDINGS)
    sizes = x.shape.as_list()[2:]
    if grid.shape.rank != x.shape.rank or grid.shape.as_list()[::-1][0] != len(sizes):
        raise popart_exception(
            f"GridSample: a grid for images {x.shape.as_list()} has their rank, and "
            f"{len(sizes)} coordinates. Received the shape: {grid.shape.as_list()}"
        )
    if mode != "nearest" and not x.dtype.is_floating:
        raise popart_exception(
            f"GridSample: the mode {mode} needs floats. Received: {x.dtype.name}"
        )
    batch, channels = x.shape.as_list()[:2]
    wide = x if mode == "nearest" else tf.cast(x, tf.float32)
    pixels = tf.reshape(tf.transpose(wide, [0, *range(2, x.shape.rank), 1]), [batch, -1, channels])
    places = tf.reshape(tf.cast(grid, tf.float32), [batch, -1, len(sizes)])
    taps = []
    for axis, size in enumerate(sizes):
        place = places[:, :, len(sizes) - 1 - axis]
        place = (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2
        taps.append(_taps(place, size, mode, padding, align_corners))
    parts = []
    for chosen in itertools.product(*taps):
        index, inside, weight = _combined(chosen, sizes)
        part = tf.gather(pixels, index, batch_dims=1)
        part = tf.where(inside[..., tf.newaxis], part, tf.zeros([], part.dtype))
        parts.append(part if mode == "nearest" else part * weight[..., tf.newaxis])
    result = parts[0] if len(parts) == 1 else tf.add_n(parts)
    shape = [batch, channels, *grid.shape.as_list()[1:-1]]
    return tf.reshape(tf.transpose(tf.cast(result, x.dtype), [0, 2, 1]), shape)


def _combined(taps: Sequence[tuple[Any, Any, Any]], sizes: Sequence[int]) -> tuple[Any, Any, Any]:
    """Combines index, validity and weight of both axes for a pixel."""
    index, inside, weight = taps[0]
    for (own, own_inside, own_weight), size in zip(taps[1:], sizes[1:]):
        index, inside = index * size + own, inside & own_inside
        weight = weight * own_weight
    return index, inside, weight


def _taps(
    place: Any, size: int, mode: str, padding: str, align_corners: bool
) -> list[tuple[Any, Any, Any]]:
    """Returns index, validity and weight of each pixel of an axis that counts for places."""
    if mode == "cubic":
        first = tf.floor(place)
        rest = place - first
        found = [
            (first + tap, _cubic(tf.abs(rest - tap), abs(tap - 0.5) < 1)) for tap in range(-1, 3)
        ]
        found = [(_padded(p, size, padding, align_corners), weight) for p, weight in found]
    else:
        place = _padded(place, size, padding, align_corners)
        first = tf.round(place) if mode == "nearest" else tf.floor(place)
        rest = place - first
        found = [(first, 1 - rest), (first + 1, rest)][: 1 if mode == "nearest" else 2]
    return [
        (
            tf.cast(tf.clip_by_value(p, 0, size - 1), tf.int32),
            (p >= 0) & (p <= size - 1),
            weight,
        )
        for p, weight in found
    ]


def _cubic(d: Any, is_near: bool) -> Any:
    """Returns the weight of a pixel at a distance of at most 1, or between 1 and 2."""
    if is_near:
        return ((_A + 2) * d - (_A + 3)) * d * d + 1
    return _A * (((d - 5) * d + 8) * d - 4)


def _padded(place: Any, size: int, padding: str, align_corners: bool) -> Any:
    """Returns places inside an axis that have the values of the padding."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return tf.zeros_like(place)
        distance = tf.abs(place - low)
        extra = tf.math.floormod(distance, span)
        is_even = tf.equal(tf.math.floormod(tf.floor(distance / span), 2.0), 0)
        place = tf.where(is_even, extra + low, span - extra + low)
    return tf.clip_by_value(place, 0, size - 1)


_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    *("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"),
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "pytorch")
# Before opset 11 the nearest element is that with the largest index that is not beyond.
_FORMER = ("floor", "asymmetric")


@op("Upsample", 7)
def _upsample_attribute(x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    return _upsampled(x, scales, mode)


@op("Upsample", 9, known=(1,))
def _upsample(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return _upsampled(x, scales, mode)


def _upsampled(x: Any, scales: Any, mode: str) -> Any:
    if mode != "nearest":
        raise popart_exception(f"Upsample only supports the mode nearest. Received: {mode}")
    return _resized(x, scales, None, mode, *_FORMER)


@op("Resize", 10, known=(1,))
def _resize_10(x: Any, scales: Any, *, mode: str = "nearest", nearest_mode: str = "pytorch") -> Any:
    _check_mode("mode", mode, _MODES[:2])
    _check_mode("nearest_mode", nearest_mode, _NEAREST)
    if nearest_mode == "pytorch":
        return _resized(x, scales, None, mode, *_FORMER)
    return _resized(x, scales, None, mode, nearest_mode, _COORDINATES[0])


@op("Resize", 11, known=(1, 2, 3))
def resize(
    x: Any,
    roi: Any,
    scales: Any = None,
    sizes: Any = None,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = kernels.SHARPNESS,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    """Resizes a tensor as in opset 11; see ONNX for the arguments.

    Args:
        x: the tensor.
        roi: is not used.
        scales: by how much each axis grows.
        sizes: sizes of the result, instead.
        coordinate_transformation_mode: how places in the result become those in the tensor.
        cubic_coeff_a: coefficient of cubic resampling.
        exclude_outside: must be 0.
        extrapolation_value: is not used.
        mode: "nearest", "linear" or "cubic".
        nearest_mode: how places are rounded.

    Raises:
        popart_exception: If a mode is not supported, or not one of scales and sizes is given.
    """
    if coordinate_transformation_mode == "tf_crop_and_resize":
        raise popart_exception("Resize: the mode tf_crop_and_resize is not supported.")
    if exclude_outside:
        raise popart_exception("Resize: exclude_outside=1 is not supported.")
    _check_mode("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATES)
    _check_mode("mode", mode, _MODES)
    _check_mode("nearest_mode", nearest_mode, _NEAREST)
    has_scales, has_sizes = _is_given(scales), _is_given(sizes)
    if has_scales == has_sizes:
        raise popart_exception(
            "Resize op has inputs for `sizes` and `scales`. Only one of these tensors should be "
            "present. Pass an empty tensor, or '', for the other."
            if has_scales
            else "Resize takes either scales or sizes. Received: neither"
        )
    if nearest_mode == "pytorch":
        nearest_mode, coordinate_transformation_mode = _FORMER
    if has_sizes:
        counts = [int(size) for size in sizes]
        scales = [count / size for count, size in zip(counts, x.shape.as_list())]
    else:
        counts = None
    modes = (mode, nearest_mode, coordinate_transformation_mode)
    return _resized(x, scales, counts, *modes, cubic_coeff_a)


def _is_given(values: Any) -> bool:
    return values is not None and values.size > 0


def _check_mode(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise popart_exception(
            f"Resize: the {name} {value} is not supported. Expected one of: {', '.join(known)}."
        )


def _resized(
    x: Any,
    scales: Sequence[float],
    sizes: Sequence[int] | None,
    mode: str,
    nearest_mode: str,
    coordinates: str,
    sharpness: float = kernels.SHARPNESS,
) -> Any:
    """Returns a tensor in another size."""
    if len(scales) != x.shape.rank:
        raise popart_exception(
            f"Resize: there must be a scale or size for each of the {x.shape.rank} axes. Received: "
            f"{len(scales)}"
        )
    if sizes is None:  # as the original: a product in float32, rounded down
        whole = np.array(x.shape.as_list(), np.float32) * np.array(scales, np.float32)
        sizes = [int(size) for size in np.floor(whole)]
    factors = [float(scale) for scale in scales]
    result = kernels.interpolated(x, factors, mode, nearest_mode, coordinates, sizes, sharpness)
    if mode != "linear":
        return result
    return registry.with_refused_gradient(
        result, "Resize: the mode linear is not supported when training."
    )


@op("RoiAlign", 10)
def _roi_align(
    x: Any,
    rois: Any,
    batch: Any,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    size = (output_height, output_width)
    return _regions(x, rois, batch, mode, size, sampling_ratio, spatial_scale, False)


@op("RoiAlign", 16, 22)
def _roi_align_by_pixels(
    x: Any,
    rois: Any,
    batch: Any,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    known = ("half_pixel", "output_half_pixel")
    if coordinate_transformation_mode not in known:
        raise popart_exception(
            f"RoiAlign: the coordinate_transformation_mode {coordinate_transformation_mode} is not "
            f"supported. Expected one of: {', '.join(known)}."
        )
    is_shifted = coordinate_transformation_mode == known[0]
    size = (output_height, output_width)
    return _regions(x, rois, batch, mode, size, sampling_ratio, spatial_scale, is_shifted)


def _regions(
    x: Any,
    rois: Any,
    batch: Any,
    mode: str,
    size: tuple[int, int],
    sampling_ratio: int,
    spatial_scale: float,
    is_shifted: bool,
) -> Any:
    """Returns regions of images, each averaged to one size."""
    ranks = (x.shape.rank, rois.shape.rank, batch.shape.rank)
    if ranks != (4, 2, 1) or rois.shape[1] != 4 or rois.shape[0] != batch.shape[0]:
        raise popart_exception(
            "RoiAlign takes images of rank 4, regions of the shape [n, 4], and n batch indices. "
            f"Received the shapes: {x.shape}, {rois.shape}, {batch.shape}"
        )
    if mode != "avg":
        raise popart_exception(f"RoiAlign only supports the mode avg. Received: {mode}")
    if sampling_ratio < 1:
        raise popart_exception(
            "RoiAlign needs a sampling_ratio of at least 1: numbers of samples that depend on the "
            f"regions are not supported. Received: {sampling_ratio}"
        )
    images = tf.cast(batch, tf.int32)
    return kernels.region_averages(x, rois, images, size, spatial_scale, sampling_ratio, is_shifted)
