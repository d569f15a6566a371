"""Resized images and regions of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
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
