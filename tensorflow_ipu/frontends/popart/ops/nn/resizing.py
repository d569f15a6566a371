"""Resizing, and regions of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common import resampling
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import gradients
from tensorflow_ipu.frontends.popart.ops.kinds import op

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
    _check("mode", mode, _MODES[:2])
    _check("nearest_mode", nearest_mode, _NEAREST)
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
    cubic_coeff_a: float = resampling.SHARPNESS,
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
    _check("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATES)
    _check("mode", mode, _MODES)
    _check("nearest_mode", nearest_mode, _NEAREST)
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


def _check(name: str, value: str, known: Sequence[str]) -> None:
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
    sharpness: float = resampling.SHARPNESS,
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
    result = resampling.interpolated(x, factors, mode, nearest_mode, coordinates, sizes, sharpness)
    if mode != "linear":
        return result
    return gradients.refused(result, "Resize: the mode linear is not supported when training.")


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
    return resampling.region_averages(
        x, rois, images, size, spatial_scale, sampling_ratio, is_shifted
    )
