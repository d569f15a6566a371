"""Slices with bounds known when the graph is built, or when it runs."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes, tensor
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, in_place, ir_method, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ops.arithmetic import where
from tensorflow_ipu.frontends.popxl.ops.indexing import gather
from tensorflow_ipu.frontends.popxl.ops.movement import flatten, squeeze
from tensorflow_ipu.frontends.popxl.tensor import Tensor

_Bounds = tuple[int, Optional[int], int]


def _slice_spec(specs: shapes.Specs, slices: tuple[_Bounds, ...]) -> list[TensorSpec]:
    (spec,) = specs
    taken = [range(size)[builtins.slice(*bounds)] for size, bounds in zip(spec.shape, slices)]
    return [spec.with_shape(tuple(map(len, taken)))]


def _slice(t: Any, slices: tuple[_Bounds, ...]) -> Any:
    return t[tuple(builtins.slice(*bounds) for bounds in slices)]


def _subsample_spec(specs: shapes.Specs, strides: tuple[int, ...]) -> list[TensorSpec]:
    (spec,) = specs
    if 0 in strides:
        raise popart_exception(f"Strides invalid: {strides}. Expected: numbers > 0.")
    return [spec.with_shape(tuple(-(-size // step) for size, step in zip(spec.shape, strides)))]


def _subsample(t: Any, strides: tuple[int, ...]) -> Any:
    return t[tuple(builtins.slice(None, None, step) for step in strides)]


_SLICE = register(OpKind("Slice", _slice_spec, _slice))


_SLICE_ = register(
    OpKind(
        "SliceInplace",
        _slice_spec,
        lambda t, slices: [],
        GradientRule.REFUSED,
        view=lambda specs, slices: views.Sliced(slices),
    )
)


_SUBSAMPLE = register(OpKind("Subsample", _subsample_spec, _subsample))


@ir_method()
def slice(  # noqa: A001
    t: Tensor,
    start: int | Sequence[int | None] | None = None,
    stop: int | Sequence[int | None] | None = None,
    step: int | Sequence[int | None] | None = None,
    axis: int | Sequence[int] | None = None,
) -> Tensor:
    """Returns a part of a tensor; the tensor itself if nothing is cut off.

    Args:
        t: the tensor.
        start: first index along each axis.
        stop: index after the last.
        step: 1, or -1 for the elements in reverse.
        axis: the axes; the first ones by default.

    Raises:
        ValueError: If the lists differ in length, or a step is neither 1 nor -1.
    """
    bounds = _bounds(t, start, stop, step, axis)
    if all(value is None for value in (start, stop, step)):
        return t
    return building.add(_SLICE, t, slices=bounds)


def slice_(
    t: Tensor,
    start: int | Sequence[int | None] | None = None,
    stop: int | Sequence[int | None] | None = None,
    step: int | Sequence[int | None] | None = None,
    axis: int | Sequence[int] | None = None,
) -> Tensor:
    """Returns a part of a tensor as a view; the tensor itself if nothing is cut off.

    Args:
        t: the tensor.
        start: first index along each axis.
        stop: index after the last.
        step: 1, or -1 for the elements in reverse.
        axis: the axes; the first ones by default.

    Raises:
        ValueError: If the lists differ in length, or a step is neither 1 nor -1.
    """
    bounds = _bounds(t, start, stop, step, axis)
    if all(value is None for value in (start, stop, step)):
        return t
    return building.add(_SLICE_, t, slices=bounds)


def subsample(t: Tensor, strides: int | Sequence[int]) -> Tensor:
    """Samples a tensor with a stride along each axis, from the first element.

    Args:
        t: the tensor.
        strides: the stride along each axis, in elements; 1 along the remaining axes.

    Raises:
        ValueError: If there are more strides than axes.
        popart.popart_exception: If a stride is 0.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    steps = list(strides) if isinstance(strides, Iterable) else [operator.index(strides)]
    if len(steps) > t.rank:
        raise ValueError(
            f"The length of strides, {len(steps)}, must not be greater than the rank, {t.rank}."
        )
    return building.add(_SUBSAMPLE, t, strides=(*steps, *[1] * (t.rank - len(steps))))


@ir_method()
def item(t: Tensor, key: Any) -> Tensor:
    """Returns `t[key]`.

    Args:
        t: the tensor.
        key: numbers and slices; or a tensor or array of whole numbers, which gathers along the
            first axis; or one of booleans, where elements stay that are true and others become 0.

    Raises:
        TypeError: For other keys.
    """
    parts = key if isinstance(key, tuple) else (key,)
    if all(isinstance(part, (int, np.integer, builtins.slice)) for part in parts) and not any(
        isinstance(part, bool) for part in parts
    ):
        return _part(t, parts)
    if isinstance(key, (Tensor, np.ndarray, list)):
        index = tensor.as_tensor(key)
        if index.dtype.is_int:
            return gather(t, index)
        if index.dtype is dtypes.bool:
            return where(index, t, tensor.constant(0, t.dtype))
    raise TypeError(
        "Only integers, slices (`:`), integer tensors and boolean tensors are valid indices. "
        f"Received: {key!r}"
    )


@ir_method()
def diag(t: Tensor) -> Tensor:
    """Returns the diagonal of a matrix.

    Args:
        t: the matrix.

    Raises:
        ValueError: If it is no matrix.
    """
    if t.rank != 2:
        raise ValueError(f"Diag expected a 2d tensor. Received: shape={t.shape}")
    rows, columns = t.shape
    last = (min(rows, columns) - 1) * (columns + 1)
    return item(flatten(t), builtins.slice(0, last + 1, columns + 1))


def _part(t: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Returns the part of a tensor that integers and slices select."""
    if len(parts) > t.rank:
        raise ValueError(f"There are {len(parts)} indices for a tensor of rank {t.rank}.")
    cuts: list[builtins.slice] = []
    for axis, part in enumerate(parts):
        if isinstance(part, builtins.slice):
            cuts.append(part)
        elif -t.shape[axis] <= part < t.shape[axis]:
            first = int(part) % t.shape[axis]
            cuts.append(builtins.slice(first, first + 1))
        else:
            raise ValueError(
                f"Can't squeeze axis {axis}: the index {part} is not in the {t.shape[axis]} "
                "elements."
            )
    directions = [-1 if (cut.step or 1) < 0 else 1 for cut in cuts]
    starts, stops = [cut.start for cut in cuts], [cut.stop for cut in cuts]
    result = t
    if any(x is not None for x in (*starts, *stops)) or -1 in directions:
        result = slice(t, starts, stops, directions)
    steps = [abs(cut.step or 1) for cut in cuts]
    if any(step != 1 for step in steps):
        result = subsample(result, steps)
    numbers = [axis for axis, part in enumerate(parts) if not isinstance(part, builtins.slice)]
    return squeeze(result, numbers) if numbers else result


def _bounds(t: Tensor, start: Any, stop: Any, step: Any, axis: Any) -> tuple[_Bounds, ...]:
    """Returns first index, index after the last and step for each axis of a tensor."""
    building.check_in_graph(context.get_current_graph(), [t])
    lists = [
        list(value) if isinstance(value, (list, tuple)) else [value]
        for value in (start, stop, step, axis)
        if value is not None
    ]
    count = len(lists[0]) if lists else 0
    if any(len(values) != count for values in lists):
        raise ValueError(
            "All inputs must have same length. Received: "
            f"start={start}, stop={stop}, step={step}, axis={axis}"
        )
    given = iter(lists)
    nothing: list[Any] = [None] * count
    starts, stops, steps, axes = (
        nothing if value is None else next(given) for value in (start, stop, step, axis)
    )
    bounds: list[_Bounds] = [(0, size, 1) for size in t.shape]
    for position, (first, last, by) in enumerate(zip(starts, stops, steps)):
        chosen = position if axes is nothing else axes[position]
        chosen = shapes.positive_axis(chosen, t.rank, "Slice")
        if by not in (None, 1, -1):
            raise ValueError(f"Only steps of 1 and -1 are supported. Received: step={step}")
        bounds[chosen] = _clamped(t.shape[chosen], first, last, by or 1)
    return tuple(bounds)


def _clamped(size: int, start: int | None, stop: int | None, step: int) -> _Bounds:
    """Returns bounds inside of an axis, as ONNX understands them."""
    first, last, by = builtins.slice(start, stop, step).indices(size)
    return first, None if by < 0 and last < 0 else last, by


def _check_region(t: TensorSpec, index: TensorSpec, axes: Sequence[int], sizes: Any) -> None:
    if not (index.dtype.is_int and index.nelms == len(axes) == len(sizes)):
        raise popart_exception(
            f"A dynamic slice needs one index, as an integer, and one size for each of the axes "
            f"{list(axes)}. Received: indices of {index.dtype.name}{index.shape}, sizes "
            f"{list(sizes)}"
        )
    for axis, size in zip(axes, sizes):
        if not 0 <= axis < t.rank or not 0 < size <= t.shape[axis]:
            raise popart_exception(
                f"A slice of size {size} along the axis {axis} is not inside of a tensor of the "
                f"shape {t.shape}."
            )


def _region_shape(t: TensorSpec, axes: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    shape = list(t.shape)
    for axis, size in zip(axes, sizes):
        shape[axis] = size
    return tuple(shape)


def _dynamic_slice_spec(
    specs: shapes.Specs, axes: tuple[int, ...], sizes: tuple[int, ...]
) -> list[TensorSpec]:
    t, index = specs
    _check_region(t, index, axes, sizes)
    return [t.with_shape(_region_shape(t, axes, sizes))]


def _begin(t: Any, index: Any, axes: tuple[int, ...]) -> Any:
    """The first index of a region along every axis."""
    index = tf.reshape(tf.cast(index, tf.int32), [-1])
    place = {axis: index[position] for position, axis in enumerate(axes)}
    return tf.stack([place.get(axis, tf.constant(0)) for axis in range(len(t.shape))])


def _dynamic_slice(t: Any, index: Any, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    shape = [*t.shape]
    for axis, size in zip(axes, sizes):
        shape[axis] = size
    return tf.slice(t, _begin(t, index, axes), shape)


def _dynamic_update_spec(
    specs: shapes.Specs, axes: tuple[int, ...], sizes: tuple[int, ...]
) -> list[TensorSpec]:
    t, index, update = specs
    _check_region(t, index, axes, sizes)
    shapes.check_same_types([t, update], "DynamicUpdate")
    return [t]


def _dynamic_update(
    t: Any, index: Any, update: Any, axes: tuple[int, ...], sizes: tuple[int, ...]
) -> Any:
    shape = [*t.shape]
    for axis, size in zip(axes, sizes):
        shape[axis] = size
    count = math.prod(shape)
    if update.shape.num_elements() != count:
        # Elements in order, as many as there are; zeros for the rest.
        flat = tf.reshape(update, [-1])[:count]
        update = tf.pad(flat, [[0, count - flat.shape[0]]])
    grid = tf.meshgrid(*[tf.range(size) for size in shape], indexing="ij")
    places = tf.stack(grid, axis=-1) + _begin(t, index, axes)
    return tf.tensor_scatter_nd_update(t, places, tf.reshape(update, shape))


_DYNAMIC_SLICE = register(OpKind("DynamicSlice", _dynamic_slice_spec, _dynamic_slice))


_DYNAMIC_UPDATE = register(OpKind("DynamicUpdate", _dynamic_update_spec, _dynamic_update))


_DYNAMIC_UPDATE_ = in_place(_DYNAMIC_UPDATE)


def dynamic_slice(
    t: Tensor, index: Tensor, axes: Sequence[int], sizes: Sequence[int], no_overlap: bool
) -> Tensor:
    """Returns a part of a tensor at a place that is known at run time.

    Args:
        t: the tensor.
        index: the first index along each of the axes.
        axes: the axes.
        sizes: size of the part along each of them.
        no_overlap: whether the parts that a loop takes do not overlap; a hint for their layout.

    Raises:
        popart.popart_exception: If the part is not inside of the tensor.
    """
    return building.add(_DYNAMIC_SLICE, t, index, axes=tuple(axes), sizes=tuple(sizes))


def dynamic_update(
    t: Tensor,
    index: Tensor,
    t_update: Tensor,
    axes: Sequence[int],
    sizes: Sequence[int],
    no_overlap: bool,
) -> Tensor:
    """Returns a tensor with a part replaced, at a place that is known at run time.

    Args:
        t: the tensor.
        index: the first index along each of the axes.
        t_update: the new part. Its shape may differ: its elements fill the part in order, and
            zeros fill the rest.
        axes: the axes.
        sizes: size of the part along each of them.
        no_overlap: whether the parts that a loop replaces do not overlap.

    Raises:
        popart.popart_exception: If the part is not inside of the tensor.
    """
    axes, sizes = tuple(axes), tuple(sizes)
    return building.add(_DYNAMIC_UPDATE, t, index, t_update, axes=axes, sizes=sizes)


def dynamic_update_(
    t: Tensor,
    index: Tensor,
    t_update: Tensor,
    axes: Sequence[int],
    sizes: Sequence[int],
    no_overlap: bool,
) -> Tensor:
    """Replaces a part of a tensor, at a place that is known at run time.

    Args:
        t: the tensor.
        index: the first index along each of the axes.
        t_update: the new part. Its shape may differ: its elements fill the part in order, and
            zeros fill the rest.
        axes: the axes.
        sizes: size of the part along each of them.
        no_overlap: whether the parts that a loop replaces do not overlap.

    Returns:
        A view of the tensor.

    Raises:
        popart.popart_exception: If the part is not inside of the tensor.
    """
    axes, sizes = tuple(axes), tuple(sizes)
    return building.add(_DYNAMIC_UPDATE_, t, index, t_update, axes=axes, sizes=sizes)
