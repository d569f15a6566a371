"""Regions of interest in images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorflow_ipu.frontends.common import resampling
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


_ROI_ALIGN = register(OpKind("RoiAlign", _roi_spec, resampling.region_averages))


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
