"""Gather and scatter by tensors of indices, also in groups, and one-hot tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, ir_method, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor


def check_indices(spec: TensorSpec, what: str) -> None:
    """Refuses indices that are no integers.

    Args:
        spec: the indices.
        what: the op, for the error.

    Raises:
        popart.popart_exception: If they are none.
    """
    if not spec.dtype.is_int:
        raise popart_exception(
            f"{what}: indices must be integers, of the type INT32 or UINT32. Received: "
            f"{shapes.type_name(spec.dtype)}"
        )


def _gather_spec(specs: shapes.Specs, axis: int, **_: Any) -> list[TensorSpec]:
    t, indices = specs
    check_indices(indices, "Gather")
    axis = shapes.positive_axis(axis, t.rank, "Gather")
    return [t.with_shape((*t.shape[:axis], *indices.shape, *t.shape[axis + 1 :]))]


def _gather(t: Any, indices: Any, axis: int, zero_out_of_range: bool, **_: Any) -> Any:
    axis = axis % len(t.shape)
    indices = tf.cast(indices, tf.int32)  # uint32 above 2**31 becomes negative
    size = t.shape[axis]
    inside = tf.logical_and(indices >= 0, indices < size)
    found = tf.gather(t, tf.clip_by_value(indices, 0, size - 1), axis=axis)
    if not zero_out_of_range:
        return found
    mask = tf.reshape(inside, [*inside.shape, *[1] * (len(t.shape) - axis - 1)])
    return tf.where(mask, found, tf.zeros([], t.dtype))


def _scatter_spec(specs: shapes.Specs, axis: int, **_: Any) -> list[TensorSpec]:
    t, indices, values = specs
    check_indices(indices, "Scatter")
    axis = shapes.positive_axis(axis, t.rank, "Scatter")
    one_dimensional = indices.rank == 1 and indices.shape == values.shape[axis : axis + 1]
    if values.rank != t.rank or not (one_dimensional or indices.shape == values.shape):
        raise popart_exception(
            f"Scatter: values must have the rank of the tensor, {t.rank}, and indices the shape of "
            f"the values, or of their axis {axis}. Received: {values.shape} and {indices.shape}"
        )
    shapes.check_same_types([t, values], "Scatter")
    return [t]


def spread(indices: Any, shape: Sequence[int], axis: int) -> Any:
    """Returns indices along an axis for each element of a tensor.

    Args:
        indices: indices of the shape of the tensor, or of its axis.
        shape: shape of the tensor.
        axis: the axis.
    """
    indices = tf.cast(indices, tf.int32)
    if len(indices.shape) < len(shape):
        ones = [1] * len(shape)
        ones[axis] = -1
        indices = tf.reshape(indices, ones)
    return tf.broadcast_to(indices, shape)


def coordinates(indices: Any, axis: int) -> Any:
    """Returns the place of each element, with the index along one axis replaced.

    Args:
        indices: the index along the axis for each element.
        axis: the axis.

    Returns:
        The places, in a last dimension of their own.
    """
    grid = tf.meshgrid(*[tf.range(size) for size in indices.shape], indexing="ij")
    grid[axis] = indices
    return tf.stack(grid, axis=-1)


def _scatter(t: Any, indices: Any, values: Any, axis: int, **_: Any) -> Any:
    axis = axis % len(t.shape)
    places = coordinates(spread(indices, values.shape, axis), axis)
    return tf.tensor_scatter_nd_update(t, places, values)


def _onehot_spec(specs: shapes.Specs, num_classes: int, axis: int) -> list[TensorSpec]:
    t, values = specs
    check_indices(t, "OneHot")
    place = axis % (t.rank + 1)
    return [values.with_shape((*t.shape[:place], num_classes, *t.shape[place:]))]


def _onehot(t: Any, values: Any, num_classes: int, axis: int) -> Any:
    mask = tf.one_hot(tf.cast(t, tf.int32), num_classes, True, False, axis, tf.bool)
    return tf.where(mask, values[1], values[0])


_GATHER = register(OpKind("Gather", _gather_spec, _gather))


_ONEHOT = register(OpKind("OneHot", _onehot_spec, _onehot))


_SCATTER = register(OpKind("Scatter", _scatter_spec, _scatter))


_TIED_GATHER = register(OpKind("TiedGather", _gather_spec, _gather))


@ir_method()
def gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803
) -> Tensor:
    """Returns elements of a tensor by their indices along an axis, as `numpy.take`.

    Args:
        t: the tensor.
        indices: the indices.
        axis: the axis; negative ones count from the last.
        available_memory_proportion: the part of a tile's memory that the op may use.
        zero_OOR: whether elements for indices that are out of range are 0. Else they are those for
            the nearest index.

    Raises:
        popart.popart_exception: If there is no such axis, or indices are no integers.
    """
    return building.add(
        _GATHER,
        t,
        indices,
        axis=axis,
        zero_out_of_range=zero_OOR,
        memory_proportion=available_memory_proportion,
    )


def tied_gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803
) -> Tensor:
    """Returns elements of a tensor that is also used by a `matmul`; see `gather`.

    Args:
        t: the tensor.
        indices: the indices.
        axis: the axis; negative ones count from the last.
        available_memory_proportion: the part of a tile's memory that the op may use.
        zero_OOR: whether elements for indices that are out of range are 0.

    Raises:
        popart.popart_exception: If there is no such axis, or indices are no integers.
    """
    return building.add(
        _TIED_GATHER,
        t,
        indices,
        axis=axis,
        zero_out_of_range=zero_OOR,
        memory_proportion=available_memory_proportion,
    )


def onehot(t: Tensor, num_classes: Tensor, values: Tensor, axis: int) -> Tensor:
    """Returns a tensor with one more axis, along which one element for each index is on.

    Args:
        t: the indices.
        num_classes: size of the new axis, a constant with one element.
        values: the elements that are off, and the one that is on.
        axis: where the new axis is; -1 for the last.

    Raises:
        popart.popart_exception: If `num_classes` is no constant, or indices are no integers.
    """
    building.check_in_graph(context.get_current_graph(), [t, num_classes, values])
    if not isinstance(num_classes, Constant) or num_classes.nelms != 1:
        raise popart_exception(
            f"OneHot: {num_classes!r} does not have data. num_classes must be a constant with one "
            "element."
        )
    return building.add(_ONEHOT, t, values, num_classes=int(num_classes.data.item()), axis=axis)


def scatter(
    t: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Returns a tensor in which elements are replaced, by their indices along an axis.

    Args:
        t: the tensor.
        indices: the index for each value, or for each along the axis.
        values: the new elements.
        axis: the axis; negative ones count from the last.
        available_memory_proportion: the part of a tile's memory that the op may use.

    Raises:
        popart.popart_exception: If shapes or types do not fit.
    """
    return building.add(
        _SCATTER, t, indices, values, axis=axis, memory_proportion=available_memory_proportion
    )


_REDUCTIONS = ("sum", "max", "min", "none")


_SCATTERS = {
    "sum": tf.tensor_scatter_nd_add,
    "max": tf.tensor_scatter_nd_max,
    "min": tf.tensor_scatter_nd_min,
    "none": tf.tensor_scatter_nd_update,
}


def _index_shape(
    data: tuple[int, ...], indices: tuple[int, ...], axis: int, groups: int
) -> tuple[int, ...]:
    """Returns the shape in which indices are broadcast to the data.

    Args:
        data: shape of the data.
        indices: shape of the indices.
        axis: the axis that they are for.
        groups: how many groups there are, along the first dimensions of both.

    Raises:
        popart.popart_exception: If they are neither for each element nor for each along the axis.
    """
    along = [1] * len(data)
    along[axis] = data[axis]
    if groups > 1:
        along[0] = groups
    vector = (groups, data[axis]) if groups > 1 else (data[axis],)
    if indices == data:
        return data
    if indices in (vector, tuple(along)):
        return tuple(along)
    raise popart_exception(
        f"ScatterReduce: Partial broadcasting of indices of the shape {indices} to data of the "
        f"shape {data} is not supported. Expected: that shape, or {vector}."
    )


def _covered(data: tuple[int, ...], indices: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the part of the data that indices cover which are not broadcast.

    Args:
        data: shape of the data.
        indices: shape of the indices.

    Raises:
        popart.popart_exception: If the indices have another rank, or are larger.
    """
    if len(indices) != len(data):
        raise popart_exception(
            "Invalid rank for indices input. ScatterReduce with enable_index_broadcast=False needs "
            f"indices of the rank of the data, {len(data)}. Received the shape {indices}."
        )
    if any(own > whole for own, whole in zip(indices, data)):
        raise popart_exception(
            "ScatterReduce with enable_index_broadcast=False needs indices that are not larger "
            f"than the data {data} in any dimension. Received the shape {indices}."
        )
    return indices


def _reduce_spec(
    specs: shapes.Specs,
    reduction: str,
    axis: int,
    size: int,
    groups: int,
    is_broadcast: bool,
    **_: Any,
) -> list[TensorSpec]:
    data, indices = specs[:2]
    check_indices(indices, "ScatterReduce")
    _check_groups("ScatterReduce", data, indices, axis, groups)
    if is_broadcast:
        _index_shape(data.shape, indices.shape, axis, groups)
    shape = list(data.shape if is_broadcast else _covered(data.shape, indices.shape))
    shape[axis] = size
    for start in specs[2:]:
        shapes.check_same_types([data, start], "ScatterReduce")
        is_large = start.rank == len(shape) and all(n >= m for n, m in zip(start.shape, shape))
        if not is_large:
            raise popart_exception(
                f"ScatterReduce: initial_values must have the shape {tuple(shape)}, or a larger "
                f"one. Received: {start.shape}"
            )
        shape = list(start.shape)
    return [data.with_shape(tuple(shape))]


def _start(reduction: str, dtype: tf.DType) -> Any:
    """Returns the initial value of the elements of a reduction."""
    if reduction in ("sum", "none"):
        return tf.zeros([], dtype)
    if dtype.is_floating:
        return tf.constant(float("-inf" if reduction == "max" else "inf"), dtype)
    return tf.constant(dtype.min if reduction == "max" else dtype.max, dtype)


def _reduce(
    data: Any,
    indices: Any,
    *start: Any,
    reduction: str,
    axis: int,
    size: int,
    groups: int,
    is_broadcast: bool,
    **_: Any,
) -> Any:
    own = tuple(indices.shape)
    if not is_broadcast:
        data = tf.slice(data, [0] * len(own), own)
    shape = list(data.shape)
    shape[axis] = size
    initial = start[0] if start else tf.fill(shape, _start(reduction, data.dtype))
    spread = tf.reshape(indices, _index_shape(tuple(data.shape), own, axis, groups))
    places = coordinates(tf.broadcast_to(tf.cast(spread, tf.int32), data.shape), axis)
    return _SCATTERS[reduction](initial, places, data)


def _grouped_gather_spec(specs: shapes.Specs, axis: int, groups: int, **_: Any) -> list[TensorSpec]:
    t, indices = specs
    check_indices(indices, "GroupedGather")
    _check_groups("GroupedGather", t, indices, axis, groups)
    own = indices.shape[1:] if groups > 1 else indices.shape
    return [t.with_shape((*t.shape[:axis], *own, *t.shape[axis + 1 :]))]


def _grouped_gather(
    t: Any, indices: Any, axis: int, groups: int, zero_out_of_range: bool, **_: Any
) -> Any:
    batch = 1 if groups > 1 else 0
    indices, size = tf.cast(indices, tf.int32), t.shape[axis]
    inside = tf.logical_and(indices >= 0, indices < size)
    found = tf.gather(t, tf.clip_by_value(indices, 0, size - 1), axis=axis, batch_dims=batch)
    if not zero_out_of_range:
        return found
    shape = [1] * len(found.shape)
    shape[axis : axis + len(indices.shape) - batch] = indices.shape[batch:]
    if batch:
        shape[0] = groups
    return tf.where(tf.reshape(inside, shape), found, tf.zeros([], t.dtype))


def _check_groups(what: str, t: TensorSpec, indices: TensorSpec, axis: int, groups: int) -> None:
    """Refuses groups that are not along the first dimensions."""
    if groups == 1:
        return
    if axis == 0 or t.shape[:1] != (groups,) or indices.shape[:1] != (groups,):
        raise popart_exception(
            f"{what}: with {groups} groups, the first dimension of the tensor and of the indices "
            f"must be the groups, and the axis another one. Received: {t.shape}, {indices.shape} "
            f"and axis={axis}"
        )


_SCATTER_REDUCE = register(OpKind("ScatterReduce", _reduce_spec, _reduce))


_GROUPED_GATHER = register(OpKind("GroupedGather", _grouped_gather_spec, _grouped_gather))


def scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Returns a tensor that elements are reduced into, by their indices along an axis.

    Args:
        data: the elements.
        indices: where each goes along the axis; or a vector, where all elements with an index along
            the axis go.
        reduction: "sum", "max", "min", or "none" for the last of them.
        initial_values: what is there before; else nothing: 0, or for "max" and "min" what is less
            or more than all numbers. The result has their shape.
        axis: the axis; negative ones count from the last.
        axis_size: size of the axis in the result, if there are no initial values.
        enable_index_broadcast: whether a vector of indices stands for all elements along the axis.
            Else only the corner of the data is reduced that the indices cover: they have its rank,
            and the result has their shape but for the axis.
        available_memory_proportion: the part of a tile's memory that the op may use.

    Raises:
        ValueError: If there is no such reduction, or neither initial values nor a size are given.
        popart.popart_exception: If shapes or types do not fit.
    """
    return grouped_scatter_reduce(
        data,
        indices,
        reduction,
        initial_values,
        axis,
        axis_size,
        1,
        enable_index_broadcast,
        available_memory_proportion,
    )


def grouped_scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    group_size: int = 1,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Returns a tensor that elements are reduced into, in each group by itself.

    Args:
        data: the elements; with several groups, along the first dimension.
        indices: as for `scatter_reduce`; with several groups, along the first dimension.
        reduction: as for `scatter_reduce`.
        initial_values: as for `scatter_reduce`.
        axis: the axis of `data`; with several groups not the first.
        axis_size: as for `scatter_reduce`.
        group_size: how many groups there are.
        enable_index_broadcast: as for `scatter_reduce`.
        available_memory_proportion: the part of a tile's memory that the op may use.

    Raises:
        Exception: As `scatter_reduce` does.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"reduction must be one of {', '.join(_REDUCTIONS)}. Received: {reduction!r}"
        )
    if initial_values is None and axis_size is None:
        raise ValueError("One of initial_values and axis_size must be given.")
    given = [] if initial_values is None else [initial_values]
    building.check_in_graph(context.get_current_graph(), [data, indices, *given])
    axis = shapes.positive_axis(axis, data.rank, "ScatterReduce")
    size = axis_size if initial_values is None else initial_values.shape[axis]
    return building.add(
        _SCATTER_REDUCE,
        data,
        indices,
        *given,
        reduction=reduction,
        axis=axis,
        size=size,
        groups=group_size,
        is_broadcast=enable_index_broadcast,
        memory_proportion=available_memory_proportion,
    )


def groupedgather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    group_size: int = 1,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803
) -> Tensor:
    """Returns elements of a tensor by their indices along an axis, in each group by itself.

    Args:
        t: the tensor; with several groups, along the first dimension.
        indices: the indices; with several groups, along the first dimension.
        axis: the axis of `t`; with several groups not the first.
        group_size: how many groups there are.
        available_memory_proportion: the part of a tile's memory that the op may use.
        zero_OOR: whether elements for indices that are out of range are 0. Else they are any
            elements.

    Raises:
        popart.popart_exception: If there is no such axis, or groups are not along the first one.
    """
    building.check_in_graph(context.get_current_graph(), [t, indices])
    return building.add(
        _GROUPED_GATHER,
        t,
        indices,
        axis=shapes.positive_axis(axis, t.rank, "GroupedGather"),
        groups=group_size,
        zero_out_of_range=zero_OOR,
        memory_proportion=available_memory_proportion,
    )
