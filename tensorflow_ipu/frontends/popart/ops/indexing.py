"""Gathering, one-hot vectors and dynamic slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import texts
from tensorflow_ipu.frontends.popart.ops.broadcasting import axes_of, axis_of
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, GradientRule, op

# On a tensor: which elements each slice has that is promised not to overlap others.
_SLICED = "_popart_slices"


def signed(indices: Any) -> Any:
    """Returns indices of a type that TensorFlow takes.

    Args:
        indices: the indices.

    Raises:
        popart_exception: If they are floating-point numbers.
    """
    if indices.dtype.is_floating:
        raise popart_exception(
            f"Indices of {texts.OP} must be integers. Received: {texts.info(indices)}. Add a Cast "
            "to INT32 before it."
        )
    return indices if indices.dtype in (tf.int32, tf.int64) else tf.cast(indices, tf.int32)


def counted(indices: Any, size: Any) -> Any:
    """Returns indices, of which negative ones count from the end.

    Args:
        indices: the indices.
        size: size of the dimension, or sizes for the last dimension of the indices.
    """
    known = tf.get_static_value(indices)
    if known is not None:
        return tf.constant(np.where(known < 0, known + size, known), signed(indices).dtype)
    if indices.dtype.is_unsigned:
        return signed(indices)
    own = signed(indices)
    return tf.where(own < 0, own + tf.constant(size, own.dtype), own)


@op("Gather", 1, folds=True)
def _gather_unsigned(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Indices that a program computes are not negative; a model may have constants that are."""
    number = axis_of(axis, x.shape.rank)
    is_known = tf.get_static_value(indices) is not None
    own = counted(indices, x.shape[number]) if is_known else signed(indices)
    return tf.gather(x, own, axis=number)


@op("Gather", 11, 13, folds=True)
def _gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    number = axis_of(axis, x.shape.rank)
    return tf.gather(x, counted(indices, x.shape[number]), axis=number)


@op("GroupedGather", 1, domain=GRAPHCORE)
def _grouped_gather(x: Any, indices: Any, *, axis: int = 0, group_size: int = 1) -> Any:
    if group_size == 1:
        return _gather_unsigned(x, indices, axis=axis)
    number = axis_of(axis, x.shape.rank)
    if number == 0:
        raise popart_exception(
            "The axis 0 of GroupedGather indicates the dimension of the group. Pass another."
        )
    return tf.gather(x, signed(indices), axis=number, batch_dims=1)


@op("GatherElements", 11)
def _gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return tf.gather_nd(x, positions(x, indices, axis_of(axis, x.shape.rank)))


@op("GatherND", 11)
def _gather_nd(x: Any, indices: Any) -> Any:
    return tf.gather_nd(x, counted(indices, x.shape.as_list()[: indices.shape[-1]]))


@op("Scatter", 9, 11)
def _scatter(x: Any, indices: Any, updates: Any, *, axis: int = 0) -> Any:
    return _scattered(x, indices, updates, axis)


@op("ScatterElements", 11)
def _scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0) -> Any:
    return _scattered(x, indices, updates, axis)


@op("ScatterND", 11)
def _scatter_nd(x: Any, indices: Any, updates: Any) -> Any:
    own = counted(indices, x.shape.as_list()[: indices.shape[-1]])
    return tf.tensor_scatter_nd_update(x, own, updates)


def _scattered(x: Any, indices: Any, updates: Any, axis: int) -> Any:
    """Returns `x` with updates written by index; updates beyond the indices are ignored."""
    if updates.shape != indices.shape:
        updates = tf.slice(updates, [0] * indices.shape.rank, indices.shape)
    places = positions(x, indices, axis_of(axis, x.shape.rank))
    return tf.tensor_scatter_nd_update(x, places, updates)


def positions(x: Any, indices: Any, axis: int) -> Any:
    """Returns the place in a tensor of each index along an axis, all coordinates last.

    Args:
        x: the tensor.
        indices: the indices; negative ones count from the end.
        axis: the axis.
    """
    grid = [tf.constant(part, tf.int64) for part in np.indices(indices.shape.as_list())]
    own = tf.cast(indices, tf.int64)
    grid[axis] = tf.where(own < 0, own + x.shape[axis], own)
    return tf.stack(grid, -1)


@op("OneHot", 9, 11, known=(1,))
def _one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    if depth.size != 1:
        raise popart_exception(f"The depth of OneHot must be one number. Received: {depth}")
    count = int(depth.reshape(-1)[0])
    wanted = tf.cast(indices, tf.int64)
    wanted = tf.where(wanted < 0, wanted + count, wanted)
    number = axis_of(axis, indices.shape.rank + 1)
    chosen = tf.one_hot(wanted, count, True, False, axis=number, dtype=tf.bool)
    return tf.where(chosen, values[1], values[0])


@op("DynamicSlice", 1, domain=GRAPHCORE)
def _dynamic_slice(
    x: Any, offset: Any, memory: Any = None, *, axes: Any, sizes: Any, noOverlap: int = 0
) -> Any:
    part = tf.slice(x, _begin(x, offset, axes), _sizes(x, axes, sizes))
    if noOverlap:
        part = _written_back(x, part, offset, axes, sizes)
    return part if memory is None else tf.reshape(part, memory.shape)


def _written_back(x: Any, part: Any, offset: Any, axes: Any, sizes: Any) -> Any:
    """Returns a slice whose gradient is written, not added; the last of overlapping slices wins."""
    masks = getattr(x, _SLICED, [])
    setattr(x, _SLICED, masks)
    number = len(masks)
    masks.append(_inside(x, offset, axes, sizes))

    @tf.custom_gradient
    def sliced(_: Any) -> Any:
        def backward(above: Any) -> Any:
            own = masks[number]
            for later in masks[number + 1 :]:
                own = tf.logical_and(own, tf.logical_not(later))
            return tf.where(own, _placed(x, offset, above, axes), tf.zeros_like(x))

        return part, backward

    return sliced(x)


@op("DynamicUpdate", 1, domain=GRAPHCORE)
def _dynamic_update(
    x: Any, offset: Any, part: Any, *, axes: Any, sizes: Any, noOverlap: int = 0
) -> Any:
    part = tf.reshape(part, _sizes(x, axes, sizes))
    inside = _inside(x, offset, axes, sizes)
    placed = _placed(x, offset, part, axes)
    if not noOverlap:
        return tf.where(inside, placed, x)

    # Promised not to overlap, slices of a loop need no gradient blanked where they were written.
    @tf.custom_gradient
    def updated(x: Any, placed: Any) -> Any:
        def backward(above: Any) -> Any:
            return above, tf.where(inside, above, tf.zeros_like(above))

        return tf.where(inside, placed, x), backward

    return updated(x, placed)


@op("DynamicZero", 1, domain=GRAPHCORE)
def _dynamic_zero(x: Any, offset: Any, *, axes: Any, sizes: Any) -> Any:
    return tf.where(_inside(x, offset, axes, sizes), tf.zeros_like(x), x)


@op("DynamicAdd", 1, domain=GRAPHCORE)
def _dynamic_add(x: Any, offset: Any, part: Any, *, axes: Any, sizes: Any) -> Any:
    placed = _placed(x, offset, tf.reshape(part, _sizes(x, axes, sizes)), axes)
    return x + tf.where(_inside(x, offset, axes, sizes), placed, tf.zeros_like(x))


def _sizes(x: Any, axes: Any, sizes: Any) -> list[int]:
    whole = x.shape.as_list()
    for axis, size in zip(axes_of(axes, x.shape.rank), sizes):
        whole[axis] = size
    return whole


def _begin(x: Any, offset: Any, axes: Any) -> Any:
    """Returns the first position of a slice in all dimensions."""
    given = tf.unstack(tf.cast(tf.reshape(offset, [-1]), tf.int32))
    begin = [tf.constant(0)] * x.shape.rank
    for axis, start in zip(axes_of(axes, x.shape.rank), given):
        begin[axis] = start
    return tf.stack(begin)


def _inside(x: Any, offset: Any, axes: Any, sizes: Any) -> Any:
    """Returns which elements of `x` a slice has."""
    inside = tf.ones(x.shape, tf.bool)
    starts = tf.unstack(tf.reshape(offset, [-1]))
    for axis, size, start in zip(axes_of(axes, x.shape.rank), sizes, starts):
        first = tf.cast(start, tf.int32)
        along = tf.range(x.shape[axis])
        within = tf.logical_and(along >= first, along < first + size)
        shape = [-1 if i == axis else 1 for i in range(x.shape.rank)]
        inside = tf.logical_and(inside, tf.reshape(within, shape))
    return inside


def _placed(x: Any, offset: Any, part: Any, axes: Any) -> Any:
    """Returns a tensor of the shape of `x` with the slice in its place, on a given background."""
    starts = tf.unstack(tf.cast(tf.reshape(offset, [-1]), tf.int32))
    for axis, start in zip(axes_of(axes, x.shape.rank), starts):
        positions = tf.range(x.shape[axis]) - start
        part = tf.gather(part, tf.clip_by_value(positions, 0, part.shape[axis] - 1), axis=axis)
    return part


@op("SequenceSlice", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _sequence_slice(
    source: Any, target: Any, counts: Any, from_: Any, to: Any, *, zeroUnused: int = 0
) -> Any:
    rows = tf.range(target.shape[0])
    kept = tf.zeros_like(target) if zeroUnused else target
    starts, ends = tf.cast(to, tf.int32), tf.cast(to, tf.int32) + tf.cast(counts, tf.int32)
    for index in range(counts.shape[0]):
        within = tf.logical_and(rows >= starts[index], rows < ends[index])
        wanted = tf.clip_by_value(
            rows - starts[index] + tf.cast(from_[index], tf.int32), 0, source.shape[0] - 1
        )
        mask = tf.reshape(within, [-1, *[1] * (target.shape.rank - 1)])
        kept = tf.where(mask, tf.gather(source, wanted), kept)
    return kept
