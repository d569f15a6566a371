"""Gathers, scatters, one-hot vectors, slices at known or computed positions, and B-splines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands
from tensorflow_ipu.frontends.popart.ops.operands import axes_of, axis_of
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op

# --- Gathers and slices ---

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
            f"Indices of {operands.OP} must be integers. Received: "
            f"{operands.tensor_text(indices)}. Add a Cast "
            "to INT32 before it."
        )
    return indices if indices.dtype in (tf.int32, tf.int64) else tf.cast(indices, tf.int32)


def counted(indices: Any, size: Any) -> Any:
    """Returns indices from the start; negative ones count from the end.

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
    """Returns a mask of the elements of `x` that a slice has."""
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


# --- Scatters and B-splines ---

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
    _check(source, axis, axis_size, reduction, broadcasts)
    axis = axis % source.shape.rank
    _check_groups(source, index, axis, groups)
    if broadcasts:
        index = _spread(source, index, axis, groups)
    else:
        source = _corner(source, index)
    shape = index.shape.as_list()
    shape[axis] = axis_size
    if initial is not None:
        _check_initial(source, initial, shape)
        shape = initial.shape.as_list()
    return _REDUCERS[reduction](
        source, _flat(tf.cast(index, tf.int32), shape, axis), initial, shape
    )


def _check(source: Any, axis: int, size: int, reduction: str, broadcasts: int) -> None:
    """Refuses attributes outside their ranges."""
    rank = source.shape.rank
    if not -rank <= axis < rank:
        raise popart_exception(
            f"ScatterReduce: axis = {axis} is outside the acceptable range [{-rank}, {rank - 1}]."
        )
    if size < 1:
        raise popart_exception(
            f"ScatterReduce: axis_size = {size} is not valid: axis_size must be > 0."
        )
    if broadcasts not in (0, 1):
        raise popart_exception(
            f"ScatterReduce: enable_index_broadcast must be 0 or 1. Received: {broadcasts}"
        )
    if reduction not in _REDUCTIONS:
        raise popart_exception(
            f"ScatterReduce has no reduction {reduction}. Expected one of: "
            f"{', '.join(_REDUCTIONS)}."
        )


def _check_groups(source: Any, index: Any, axis: int, groups: int) -> None:
    """Refuses groups that are not the first dimension of data and index."""
    is_grouped = groups == 1 or (
        axis > 0 and source.shape[0] == groups and index.shape.rank and index.shape[0] == groups
    )
    if not is_grouped:
        raise popart_exception(
            f"GroupedScatterReduce: with {groups} groups, the first dimension of data and index is "
            f"that of the group, and the axis is another. Received the shapes {source.shape} and "
            f"{index.shape}, and the axis {axis}."
        )


def _check_initial(source: Any, initial: Any, least: list[int]) -> None:
    """Refuses initial values of another type, or smaller than the result without them."""
    own = initial.shape.as_list()
    is_large = len(own) == len(least) and all(n >= m for n, m in zip(own, least))
    if not is_large or initial.dtype != source.dtype:
        raise popart_exception(
            f"ScatterReduce: the initial values must have the shape {least}, or a larger one, and "
            f"the type {source.dtype.name}. Received: {own}, {initial.dtype.name}"
        )


def _corner(source: Any, index: Any) -> Any:
    """Returns the part of the data that an index covers without broadcasting."""
    whole, own = source.shape.as_list(), index.shape.as_list()
    if len(whole) != len(own):
        raise popart_exception(
            f"Invalid rank for indices input. ScatterReduce with enable_index_broadcast=0 needs an "
            f"index of the rank of the data, {len(whole)}. Received the shape {own}."
        )
    if any(n > m for n, m in zip(own, whole)):
        raise popart_exception(
            f"ScatterReduce with enable_index_broadcast=0 needs an index that is not larger than "
            f"the data {whole} in any dimension. Received the shape {own}."
        )
    return source if own == whole else tf.slice(source, [0] * len(own), own)


def _spread(source: Any, index: Any, axis: int, groups: int) -> Any:
    """Returns an index for each element of the data."""
    whole, own = source.shape.as_list(), index.shape.as_list()
    if own == whole:
        return index
    if len(own) > len(whole):
        raise popart_exception(
            f"Invalid rank for indices input. ScatterReduce needs an index of at most the rank of "
            f"the data, {len(whole)}. Received the shape {own}."
        )
    along = [1] * len(whole)
    along[axis] = whole[axis]
    if groups > 1:
        along[0] = groups
    if [n for n in own if n > 1] != [n for n in along if n > 1]:
        raise popart_exception(
            f"Failed to expand 'indices' shape {own} to that of the data, {whole}. Expected that "
            f"shape, or a vector along the axis {axis}. Partial broadcasting of indices is not "
            "currently supported."
        )
    return tf.broadcast_to(tf.reshape(index, along), whole)


def _flat(index: Any, shape: list[int], axis: int) -> Any:
    """Returns for each element its place in the flat result.

    An index outside the axis has the place after the last one, which reductions drop.
    """
    grid = np.indices(index.shape.as_list(), np.int32)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1].astype(np.int32)
    others = sum(
        int(stride) * part for i, (stride, part) in enumerate(zip(strides, grid)) if i != axis
    )
    others = tf.constant(np.broadcast_to(others, index.shape), tf.int32)
    inside = tf.logical_and(index >= 0, index < shape[axis])
    return tf.where(inside, index * int(strides[axis]) + others, int(np.prod(shape)))


def _combined(segment: Any, source: Any, places: Any, shape: list[int]) -> Any:
    """Returns the reduction of the elements of each place."""
    count = int(np.prod(shape))
    return tf.reshape(segment(source, places, count + 1)[:count], shape)


def _taken(values: Any, places: Any) -> Any:
    """Returns the value of the place of each element; zero for elements without one."""
    flat = tf.concat([tf.reshape(values, [-1]), tf.zeros([1], values.dtype)], 0)
    return tf.gather(flat, places)


def _reduced(segment: Any, combine: Any) -> Any:
    """Returns a reduction with TensorFlow's own gradient."""

    def reduce(source: Any, places: Any, initial: Any, shape: list[int]) -> Any:
        result = _combined(segment, source, places, shape)
        return result if initial is None else combine(initial, result)

    return reduce


def _extreme(segment: Any, combine: Any) -> Any:
    """Returns a reduction whose gradient goes to all elements that equal the result.

    Without initial values, places that no element reaches are zero.
    """

    def reduce(source: Any, places: Any, initial: Any, shape: list[int]) -> Any:
        given = [] if initial is None else [initial]

        @tf.custom_gradient
        def computed(source: Any, *start: Any) -> Any:
            result = _combined(segment, source, places, shape)
            for values in start:
                result = combine(values, result)
            if not start:
                ones = tf.ones_like(places)
                reached = _combined(tf.math.unsorted_segment_sum, ones, places, shape) > 0
                result = tf.where(reached, result, tf.zeros_like(result))

            def backward(above: Any) -> Any:
                own = _taken(above, places)
                equal = tf.equal(source, _taken(result, places))
                return [
                    tf.where(equal, own, tf.zeros_like(own)),
                    *(tf.where(tf.equal(v, result), above, tf.zeros_like(above)) for v in start),
                ]

            return result, backward

        return computed(source, *given)

    return reduce


def _last(source: Any, places: Any, initial: Any, shape: list[int]) -> Any:
    """Returns the last update of each position."""
    start = tf.zeros(shape, source.dtype) if initial is None else initial
    flat = tf.concat([tf.reshape(start, [-1]), tf.zeros([1], source.dtype)], 0)
    positions = tf.reshape(places, [-1, 1])
    written = tf.tensor_scatter_nd_update(flat, positions, tf.reshape(source, [-1]))
    return tf.reshape(written[:-1], shape)


_REDUCERS = {
    "Sum": _reduced(tf.math.unsorted_segment_sum, tf.add),
    "Mul": _reduced(tf.math.unsorted_segment_prod, tf.multiply),
    "Max": _extreme(tf.math.unsorted_segment_max, tf.maximum),
    "Min": _extreme(tf.math.unsorted_segment_min, tf.minimum),
    "NoReduction": _last,
}


_FLOATS = (tf.float32, tf.float16)


# The pieces of uniform B-splines by degree.
_PIECES: tuple[tuple[Callable[[Any], Any], ...], ...] = (
    (tf.ones_like,),
    (lambda v: 1 - v, lambda v: v),
    (lambda v: v * v / 2 - v + 0.5, lambda v: -v * v + v + 0.5, lambda v: v * v / 2),
    (
        lambda v: (1 - v) ** 3 / 6,
        lambda v: (3 * v**3 - 6 * v**2 + 4) / 6,
        lambda v: (-3 * v**3 + 3 * v**2 + 3 * v + 1) / 6,
        lambda v: v**3 / 6,
    ),
)


@op("SplineBasis", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _spline_basis(pseudo: Any, kernel_size: Any, is_open: Any, *, degree: int = 1) -> list[Any]:
    if (pseudo.shape.rank, kernel_size.shape.rank, is_open.shape.rank) != (2, 1, 1):
        raise popart_exception("SplineBasis needs inputs of the ranks 2, 1 and 1.")
    if not 0 <= degree < len(_PIECES):
        raise popart_exception(f"SplineBasis has the degrees 0 to 3. Received: {degree}")
    dimensions = pseudo.shape[1]
    if kernel_size.shape[0] != dimensions or is_open.shape[0] != dimensions:
        raise popart_exception(
            f"SplineBasis: kernel_size and is_open_spline need one number for each of {dimensions} "
            f"dimensions. Received the shapes: {kernel_size.shape}, {is_open.shape}"
        )
    sizes = tf.cast(kernel_size, tf.int32)
    knots = sizes - degree * tf.cast(is_open, tf.int32)
    places = tf.cast(pseudo, tf.float32) * tf.cast(knots, tf.float32)
    whole = tf.floor(places)
    pieces = tf.stack([piece(places - whole) for piece in _PIECES[degree]], -1)
    # For each product which piece it takes in each dimension: [products, dimensions].
    digits = np.indices([degree + 1] * dimensions).reshape(dimensions, -1)[::-1].T
    chosen = [tf.gather(pieces[:, d], digits[:, d], axis=1) for d in range(dimensions)]
    basis = tf.reduce_prod(tf.stack(chosen, -1), -1)
    strides = tf.math.cumprod(sizes, exclusive=True)
    first = tf.cast(whole, tf.int32)[:, tf.newaxis]
    index = tf.math.floormod(first + tf.constant(digits, tf.int32), sizes)
    return [tf.cast(basis, pseudo.dtype), tf.reduce_sum(index * strides, -1)]


@op("SplineWeighting", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _spline_weighting(x: Any, weights: Any, basis: Any, index: Any) -> Any:
    ranks = tuple(tensor.shape.rank for tensor in (x, weights, basis, index))
    if ranks != (2, 3, 2, 2):
        raise popart_exception(
            f"SplineWeighting needs inputs of the ranks 2, 3, 2 and 2. Received: {ranks}"
        )
    types = [tensor.dtype for tensor in (x, weights, basis)]
    if len(set(types)) > 1 or types[0] not in _FLOATS or not index.dtype.is_integer:
        raise popart_exception(
            "SplineWeighting needs x, weights and basis of one type, FLOAT or FLOAT16, and indices "
            f"of integers. Received: {', '.join(t.name for t in types)}, {index.dtype.name}"
        )
    chosen = tf.gather(weights, tf.cast(index, tf.int32))
    weighted = tf.matmul(x[:, tf.newaxis, tf.newaxis], chosen)[:, :, 0]
    return tf.reduce_sum(basis[..., tf.newaxis] * weighted, 1)
