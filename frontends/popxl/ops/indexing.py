"""Elements by index: gathering, scattering, and slices at positions known at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, in_place, register, tensor_method
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
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
    indices = tf.cast(indices, tf.int32)
    if not zero_out_of_range:
        return tf.gather(t, indices, axis=axis)
    size = t.shape[axis]
    inside = tf.logical_and(indices >= 0, indices < size)
    found = tf.gather(t, tf.clip_by_value(indices, 0, size - 1), axis=axis)
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
    region = _region_shape(t, axes, sizes)
    if update.shape not in (region, region[1:] if region[0] == 1 else region):
        raise popart_exception(
            f"DynamicUpdate: the update must have the shape {region}. Received: {update.shape}"
        )
    return [t]


def _dynamic_update(
    t: Any, index: Any, update: Any, axes: tuple[int, ...], sizes: tuple[int, ...]
) -> Any:
    shape = [*t.shape]
    for axis, size in zip(axes, sizes):
        shape[axis] = size
    grid = tf.meshgrid(*[tf.range(size) for size in shape], indexing="ij")
    places = tf.stack(grid, axis=-1) + _begin(t, index, axes)
    return tf.tensor_scatter_nd_update(t, places, tf.reshape(update, shape))


def _onehot_spec(specs: shapes.Specs, num_classes: int, axis: int) -> list[TensorSpec]:
    t, values = specs
    check_indices(t, "OneHot")
    place = axis % (t.rank + 1)
    return [values.with_shape((*t.shape[:place], num_classes, *t.shape[place:]))]


def _onehot(t: Any, values: Any, num_classes: int, axis: int) -> Any:
    mask = tf.one_hot(tf.cast(t, tf.int32), num_classes, True, False, axis, tf.bool)
    return tf.where(mask, values[1], values[0])


_DYNAMIC_SLICE = register(OpKind("DynamicSlice", _dynamic_slice_spec, _dynamic_slice))
_DYNAMIC_UPDATE = register(OpKind("DynamicUpdate", _dynamic_update_spec, _dynamic_update))
_DYNAMIC_UPDATE_ = in_place(_DYNAMIC_UPDATE)
_GATHER = register(OpKind("Gather", _gather_spec, _gather))
_ONEHOT = register(OpKind("OneHot", _onehot_spec, _onehot))
_SCATTER = register(OpKind("Scatter", _scatter_spec, _scatter))
_TIED_GATHER = register(OpKind("TiedGather", _gather_spec, _gather))


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
        t_update: what is put there.
        axes: the axes.
        sizes: size of the part along each of them.
        no_overlap: whether the parts that a loop replaces do not overlap.

    Raises:
        popart.popart_exception: If the part is not inside of the tensor, or has another shape.
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
        t_update: what is put there.
        axes: the axes.
        sizes: size of the part along each of them.
        no_overlap: whether the parts that a loop replaces do not overlap.

    Returns:
        A view of the tensor.

    Raises:
        popart.popart_exception: If the part is not inside of the tensor, or has another shape.
    """
    axes, sizes = tuple(axes), tuple(sizes)
    return building.add(_DYNAMIC_UPDATE_, t, index, t_update, axes=axes, sizes=sizes)


@tensor_method()
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
        zero_OOR: whether elements for indices that are out of range are 0. Else they are an error.

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
        values: what is put there.
        axis: the axis; negative ones count from the last.
        available_memory_proportion: the part of a tile's memory that the op may use.

    Raises:
        popart.popart_exception: If shapes or types do not fit.
    """
    return building.add(
        _SCATTER, t, indices, values, axis=axis, memory_proportion=available_memory_proportion
    )
