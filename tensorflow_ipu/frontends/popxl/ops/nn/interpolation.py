"""Resizing of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Tensor

#: How sharp cubic interpolation is by default.
SHARPNESS = -0.75
_MODES = ("nearest", "linear", "cubic")
_ROUNDING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
_COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


def _sources(size: int, scale: float, how: str, count: int) -> np.ndarray:
    """Returns where each element of the result is in the axis of a tensor."""
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
    """Returns which elements count for each of the result, and how much."""
    if mode == "nearest":
        return [(_ROUNDING[nearest_mode](x), np.ones_like(x))]
    if mode == "linear":
        x = np.maximum(x, 0)
        rest = x - np.floor(x)
        return [(np.floor(x), 1 - rest), (np.ceil(x), rest)]
    rest = x - np.floor(x)
    return [(np.floor(x) + tap, _cubic(np.abs(rest - tap), sharpness)) for tap in (-1, 0, 1, 2)]


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    """Returns the weight of elements at a distance, up to 2."""
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    return np.where(d <= 1, near, a * (d**3 - 5 * d**2 + 8 * d - 4))


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
        scale_factor: by how much each axis grows.
        mode: as for `interpolate`.
        nearest_mode: as for `interpolate`.
        coordinates: as `coordinate_transformation_mode` for `interpolate`.
        sizes: of the result; by default those of `t` times the scales, rounded down.
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


_INTERPOLATE = register(OpKind("Resize", _interpolate_spec, interpolated))


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
        ("nearest_mode", nearest_mode, tuple(_ROUNDING)),
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
