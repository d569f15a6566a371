"""Grids of places in images: affine ones, and the values of an image at them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.kinds import op

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
    """Returns flat index, validity and weight of a pixel from those of its axes."""
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
