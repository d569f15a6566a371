"""Ops on windows of images: pooling, interpolation, and averages of regions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ops.linear import (
    channels_first,
    channels_last,
    window_padding,
    windows,
)
from tensorflow_ipu.frontends.popxl.tensor import Tensor

_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


def _spec(
    specs: shapes.Specs, kernel: Any, stride: Any, dilation: Any, pads: Any
) -> list[TensorSpec]:
    (spec,) = specs
    spatial = windows(spec.shape[2:], kernel, stride, dilation, pads)
    return [spec.with_shape((*spec.shape[:2], *spatial))]


def _pool(t: Any, kind: str, fill: Any, kernel: Any, stride: Any, dilation: Any, pads: Any) -> Any:
    """Pools a tensor that is padded at the edges, without incomplete windows."""
    padded = tf.pad(t, [(0, 0), *pads, (0, 0)], constant_values=tf.constant(fill, t.dtype))
    # TensorFlow's pooling takes neither steps beyond the window nor steps of distant elements.
    beyond = any(step > window for step, window in zip(stride, kernel))
    skipped = beyond or (max(stride) > 1 and max(dilation) > 1)
    steps = [1] * len(stride) if skipped else list(stride)
    pooled = tf.nn.pool(padded, list(kernel), kind, steps, "VALID", dilations=list(dilation))
    return pooled[(slice(None), *(slice(None, None, s) for s in stride))] if skipped else pooled


def _average(t: Any, **window: Any) -> Any:
    """The mean of the elements of each window that are not padding."""
    last = channels_last(t)
    total = _pool(last, "AVG", 0, **window)
    if any(pad for pads in window["pads"] for pad in pads):
        total = total / _pool(tf.ones_like(last), "AVG", 0, **window)
    return channels_first(total)


def _max(t: Any, **window: Any) -> Any:
    return channels_first(_pool(channels_last(t), "MAX", t.dtype.min, **window))


_AVERAGE = register(OpKind("AveragePool", _spec, _average))
_MAX = register(OpKind("MaxPool", _spec, _max))


def average_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    out_pads: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    in_dilations: Sequence[int] | None = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
) -> Tensor:
    """Returns the means over windows, without the padding in them.

    Args:
        t: the tensor: samples, channels, and spatial axes.
        kernel_size: sizes of the window.
        stride: its steps; 1 by default.
        padding: elements to add: before all spatial axes, then after all of them.
        out_pads: elements to add to the result; none but 0 are supported.
        dilation: distances of the elements of the window.
        in_dilations: distances of the elements of the tensor; none but 1 are supported.
        auto_pad: "not_set" for `padding`, "same_upper", "same_lower" or "valid".
        ceil_mode: whether windows that reach over the edge count.

    Raises:
        ValueError: If the pad type is another one.
        popart.popart_exception: For values that are not supported.
    """
    window = _window(
        t, kernel_size, stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode
    )
    return building.add(_AVERAGE, t, **window)


def max_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    out_pads: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    in_dilations: Sequence[int] | None = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
    storage_order: str = "row",
) -> Tensor:
    """Returns the greatest elements of windows.

    Args:
        t: the tensor: samples, channels, and spatial axes.
        kernel_size: sizes of the window.
        stride: its steps; 1 by default.
        padding: elements to add: before all spatial axes, then after all of them.
        out_pads: elements to add to the result; none but 0 are supported.
        dilation: distances of the elements of the window.
        in_dilations: distances of the elements of the tensor; none but 1 are supported.
        auto_pad: "not_set" for `padding`, "same_upper", "same_lower" or "valid".
        ceil_mode: whether windows that reach over the edge count.
        storage_order: "row"; nothing else is supported.

    Raises:
        ValueError: If the pad type is another one.
        popart.popart_exception: For values that are not supported.
    """
    if storage_order != "row":
        raise popart_exception(f"MaxPool: the storage_order must be 'row', not {storage_order!r}.")
    window = _window(
        t, kernel_size, stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode
    )
    return building.add(_MAX, t, **window)


def _window(
    t: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] | None,
    padding: Sequence[int] | None,
    out_pads: Sequence[int] | None,
    dilation: Sequence[int] | None,
    in_dilations: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: bool,
) -> dict[str, Any]:
    """Returns the attributes of a pooling."""
    building.check_in_graph(context.get_current_graph(), [t])
    if any(out_pads or ()) or any(step != 1 for step in in_dilations or ()):
        raise popart_exception("Pooling: out_pads other than 0 and in_dilations other than 1.")
    sizes, ones = t.shape[2:], (1,) * len(kernel)
    stride, dilation = tuple(stride or ones), tuple(dilation or ones)
    given = padding or (0,) * 2 * len(kernel)
    pads = window_padding(sizes, kernel, stride, dilation, given, auto_pad)
    if ceil_mode:
        pads = tuple(map(_whole_windows, sizes, pads, kernel, stride, dilation))
    return {"kernel": tuple(kernel), "stride": stride, "dilation": dilation, "pads": pads}


def _whole_windows(
    size: int, pads: tuple[int, int], kernel: int, stride: int, dilation: int
) -> tuple[int, int]:
    """Returns the padding with which the last window that begins inside of the tensor is whole."""
    before, after = pads
    rest = size + before + after - dilation * (kernel - 1) - 1
    last = -(-rest // stride) * stride
    more = last - rest if last < size + before else 0
    return before, after + more


def _interpolate_spec(
    specs: shapes.Specs, scale_factor: tuple[float, ...], **_: Any
) -> list[TensorSpec]:
    (t,) = specs
    if len(scale_factor) != t.rank:
        raise popart_exception(
            f"Resize: there must be a scale for each of the {t.rank} axes. Received: {scale_factor}"
        )
    sizes = (math.floor(size * scale) for size, scale in zip(t.shape, scale_factor))
    return [t.with_shape(tuple(sizes))]


_INTERPOLATE = register(OpKind("Resize", _interpolate_spec, kernels.interpolated))


def interpolate(
    t: Tensor,
    scale_factor: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Tensor:
    """Returns a tensor in another size.

    Args:
        t: the tensor.
        scale_factor: by how much each axis grows.
        mode: "nearest", "linear" or "cubic".
        nearest_mode: how the nearest element is found: "round_prefer_floor", "round_prefer_ceil",
            "floor" or "ceil".
        coordinate_transformation_mode: where an element of the result is in the tensor:
            "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric" or
            "tf_half_pixel_for_nn".

    Raises:
        ValueError: If a mode is unknown.
        popart.popart_exception: If there is not a scale for each axis, or for
            "tf_crop_and_resize", which is not supported.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    for name, value, known in (
        ("mode", mode, _MODES),
        ("nearest_mode", nearest_mode, tuple(kernels.ROUNDING)),
        ("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATES),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not valid. Expected one of: {', '.join(known)}.")
    if coordinate_transformation_mode == "tf_crop_and_resize":
        raise popart_exception("Resize: tf_crop_and_resize is not supported.")
    return building.add(
        _INTERPOLATE,
        t,
        scale_factor=tuple(float(scale) for scale in scale_factor),
        mode=mode,
        nearest_mode=nearest_mode,
        coordinates=coordinate_transformation_mode,
    )


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


_ROI_ALIGN = register(OpKind("RoiAlign", _roi_spec, kernels.region_averages))


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
        spatial_scale: the factor of the numbers of the regions.
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
