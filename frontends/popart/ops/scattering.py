"""Reductions of elements by index: ScatterReduce and GroupedScatterReduce."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.broadcasting import axis_of
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, op

_REDUCTIONS = ("Sum", "Max", "Min", "Mul", "NoReduction")


@op("ScatterReduce", 1, domain=GRAPHCORE)
def _scatter_reduce(
    source: Any,
    index: Any,
    initial: Any = None,
    *,
    axis_size: int,
    axis: int = -1,
    reduction: str = "Sum",
    enable_index_broadcast: int = 1,
) -> Any:
    return _grouped(source, index, initial, axis_size, axis, reduction, 1, enable_index_broadcast)


@op("GroupedScatterReduce", 1, domain=GRAPHCORE)
def _grouped_scatter_reduce(
    source: Any,
    index: Any,
    initial: Any = None,
    *,
    axis_size: int,
    axis: int = -1,
    reduction: str = "Sum",
    group_size: int = 1,
    enable_index_broadcast: int = 1,
) -> Any:
    return _grouped(
        source, index, initial, axis_size, axis, reduction, group_size, enable_index_broadcast
    )


def _grouped(
    source: Any,
    index: Any,
    initial: Any,
    axis_size: int,
    axis: int,
    reduction: str,
    groups: int,
    broadcasts: int,
) -> Any:
    axis = axis_of(axis, source.shape.rank)
    _check(source, index, axis, axis_size, reduction, groups, broadcasts)
    shape = source.shape.as_list()
    shape[axis] = axis_size
    if initial is not None and (initial.shape.as_list() != shape or initial.dtype != source.dtype):
        raise popart_exception(
            f"ScatterReduce: the initial values must have the shape {shape} and the type "
            f"{source.dtype.name}. Received: {initial.shape.as_list()}, {initial.dtype.name}"
        )
    spread = _spread(source, tf.cast(index, tf.int32), axis, groups, bool(broadcasts))
    return _REDUCERS[reduction](source, _flat(spread, shape, axis), initial, shape)


def _check(
    source: Any, index: Any, axis: int, size: int, reduction: str, groups: int, broadcasts: int
) -> None:
    """Refuses attributes and types that there are not."""
    if size < 1:
        raise popart_exception(f"ScatterReduce: axis_size must be > 0. Received: {size}")
    if broadcasts not in (0, 1):
        raise popart_exception(
            f"ScatterReduce: enable_index_broadcast must be 0 or 1. Received: {broadcasts}"
        )
    if reduction not in _REDUCTIONS:
        raise popart_exception(
            f"ScatterReduce has no reduction {reduction}. Expected one of: "
            f"{', '.join(_REDUCTIONS)}."
        )
    if not index.dtype.is_integer:
        raise popart_exception(
            f"ScatterReduce: the index must be of integers. Received: {index.dtype.name}"
        )
    is_grouped = groups == 1 or (
        axis > 0 and source.shape[0] == groups and index.shape.rank and index.shape[0] == groups
    )
    if not is_grouped:
        raise popart_exception(
            f"GroupedScatterReduce: with {groups} groups, the first dimension of data and index is "
            f"that of the group, and the axis is another. Received the shapes {source.shape} and "
            f"{index.shape}, and the axis {axis}."
        )


def _spread(source: Any, index: Any, axis: int, groups: int, broadcasts: bool) -> Any:
    """Returns an index for each element of the data."""
    whole, own = source.shape.as_list(), index.shape.as_list()
    if own == whole:
        return index
    along = [1] * len(whole)
    along[axis] = whole[axis]
    if groups > 1:
        along[0] = groups
    if np.prod(own) == np.prod(along) and [n for n in own if n > 1] == [n for n in along if n > 1]:
        return tf.broadcast_to(tf.reshape(index, along), whole)
    try:
        fits = not broadcasts and list(np.broadcast_shapes(whole, own)) == whole
    except ValueError:
        fits = False
    if not fits:
        raise popart_exception(
            "Partial broadcasting of indices is not currently supported: the index of "
            f"ScatterReduce has the shape {own}, the data {whole}. Expected: that shape, or a "
            f"vector along the axis {axis}."
        )
    return tf.broadcast_to(index, whole)


def _flat(index: Any, shape: list[int], axis: int) -> Any:
    """Returns for each element its place in the result, as one number."""
    grid = np.indices(index.shape.as_list(), np.int32)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1].astype(np.int32)
    others = sum(
        int(stride) * part for i, (stride, part) in enumerate(zip(strides, grid)) if i != axis
    )
    return index * int(strides[axis]) + tf.constant(np.broadcast_to(others, index.shape), tf.int32)


def _reduced(segment: Any, combine: Any) -> Any:
    """Returns a reduction with TensorFlow's own gradient."""

    def reduce(source: Any, places: Any, initial: Any, shape: list[int]) -> Any:
        result = tf.reshape(segment(source, places, int(np.prod(shape))), shape)
        return result if initial is None else combine(initial, result)

    return reduce


def _extreme(segment: Any, combine: Any) -> Any:
    """Returns a reduction whose gradient goes to all elements that equal the result."""

    def reduce(source: Any, places: Any, initial: Any, shape: list[int]) -> Any:
        given = [] if initial is None else [initial]

        @tf.custom_gradient
        def computed(source: Any, *start: Any) -> Any:
            result = tf.reshape(segment(source, places, int(np.prod(shape))), shape)
            for values in start:
                result = combine(values, result)

            def backward(above: Any) -> Any:
                own = tf.gather(tf.reshape(above, [-1]), places)
                equal = tf.equal(source, tf.gather(tf.reshape(result, [-1]), places))
                return [
                    tf.where(equal, own, tf.zeros_like(own)),
                    *(tf.where(tf.equal(v, result), above, tf.zeros_like(above)) for v in start),
                ]

            return result, backward

        return computed(source, *given)

    return reduce


def _last(source: Any, places: Any, initial: Any, shape: list[int]) -> Any:
    """Returns what is written last at each place."""
    start = tf.zeros(shape, source.dtype) if initial is None else initial
    positions = tf.reshape(places, [-1, 1])
    written = tf.tensor_scatter_nd_update(
        tf.reshape(start, [-1]), positions, tf.reshape(source, [-1])
    )
    return tf.reshape(written, shape)


_REDUCERS = {
    "Sum": _reduced(tf.math.unsorted_segment_sum, tf.add),
    "Mul": _reduced(tf.math.unsorted_segment_prod, tf.multiply),
    "Max": _extreme(tf.math.unsorted_segment_max, tf.maximum),
    "Min": _extreme(tf.math.unsorted_segment_min, tf.minimum),
    "NoReduction": _last,
}
