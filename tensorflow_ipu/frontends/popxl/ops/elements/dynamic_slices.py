"""Parts of tensors at positions that are known at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, in_place, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Tensor


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
        t_update: what is put there. Its shape need not be that of the part: its elements fill the
            part in order, and zeros what is left.
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
        t_update: what is put there. Its shape need not be that of the part: its elements fill the
            part in order, and zeros what is left.
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
