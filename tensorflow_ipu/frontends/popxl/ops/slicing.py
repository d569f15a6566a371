"""Parts of tensors: slices, and what `[]` means."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import numpy as np

from tensorflow_ipu.frontends.popxl import building, context, dtypes, tensor
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register, tensor_method
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.ops.elements.indexing import gather
from tensorflow_ipu.frontends.popxl.ops.logic import where
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
        Gradient.REFUSED,
        view=lambda specs, slices: views.Sliced(slices),
    )
)
_SUBSAMPLE = register(OpKind("Subsample", _subsample_spec, _subsample))


@tensor_method()
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
    """Returns every so many elements of a tensor, from the first.

    Args:
        t: the tensor.
        strides: every how many, along each axis; 1 along those that are left out.

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


@tensor_method()
def item(t: Tensor, key: Any) -> Tensor:
    """Returns what `t[key]` is.

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


@tensor_method()
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
    """Returns what numbers and slices cut out."""
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
