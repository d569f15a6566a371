"""Elements by index: gathering and scattering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register, tensor_method
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
        values: what is put there.
        axis: the axis; negative ones count from the last.
        available_memory_proportion: the part of a tile's memory that the op may use.

    Raises:
        popart.popart_exception: If shapes or types do not fit.
    """
    return building.add(
        _SCATTER, t, indices, values, axis=axis, memory_proportion=available_memory_proportion
    )
