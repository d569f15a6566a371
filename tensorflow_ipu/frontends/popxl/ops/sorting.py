"""The order of elements: the greatest ones, their places, running sums and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.popxl import building, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant


def _place_spec(specs: shapes.Specs, dim: int, keepdim: bool) -> list[TensorSpec]:
    (spec,) = specs
    axis = shapes.positive_axis(dim, spec.rank, "ArgMax")
    middle = (1,) if keepdim else ()
    shape = (*spec.shape[:axis], *middle, *spec.shape[axis + 1 :])
    return [TensorSpec(shape, dtypes.int32)]


def _place(find: Any) -> Any:
    def compute(t: Any, dim: int, keepdim: bool) -> Any:
        found = find(t, dim, output_type=tf.int32)
        return tf.expand_dims(found, dim) if keepdim else found

    return compute


def _cumsum_spec(specs: shapes.Specs, dim: int) -> list[TensorSpec]:
    shapes.positive_axis(dim, specs[0].rank, "CumSum")
    return [specs[0]]


def _topk_spec(specs: shapes.Specs, k: int, axis: int, largest: bool, **_: Any) -> list[TensorSpec]:
    (spec,) = specs
    axis = shapes.positive_axis(axis, spec.rank, "TopK")
    if k > spec.shape[axis]:
        raise popart_exception(
            f"Cannot take top-{k} of the {spec.shape[axis]} elements along the axis {axis}."
        )
    shape = (*spec.shape[:axis], k, *spec.shape[axis + 1 :])
    return [spec.with_shape(shape), TensorSpec(shape, dtypes.int32)]


def _topk(t: Any, k: int, axis: int, largest: bool, **_: Any) -> list[Any]:
    axis = axis % len(t.shape)
    order = [i for i in range(len(t.shape)) if i != axis] + [axis]
    back = [order.index(i) for i in range(len(order))]
    rows = tf.transpose(t, order)
    values, indices = tf.math.top_k(rows if largest else kernels.descending(rows), k)
    values = values if largest else kernels.descending(values)
    return [tf.transpose(values, back), tf.transpose(indices, back)]


def _histogram_spec(
    specs: shapes.Specs, levels: tuple[float, ...], absolute: bool
) -> list[TensorSpec]:
    if specs[0].dtype not in (dtypes.float16, dtypes.float32):
        raise popart_exception(
            "Histogram takes tensors of the types FLOAT and FLOAT16. Received: "
            f"{shapes.type_name(specs[0].dtype)}"
        )
    return [TensorSpec((len(levels) + 1,), dtypes.uint32)]


def _histogram(t: Any, levels: tuple[float, ...], absolute: bool) -> Any:
    flat = tf.cast(tf.reshape(tf.abs(t) if absolute else t, [-1, 1]), tf.float32)
    bins = tf.reduce_sum(tf.cast(flat >= tf.constant(levels, tf.float32), tf.int32), 1)
    counts = tf.reduce_sum(tf.one_hot(bins, len(levels) + 1, 1, 0, dtype=tf.int32), 0)
    return tf.cast(counts, tf.uint32)


_ARGMAX = register(OpKind("ArgMax", _place_spec, _place(tf.argmax), Gradient.CUT))
_ARGMIN = register(OpKind("ArgMin", _place_spec, _place(tf.argmin), Gradient.CUT))
_CUMSUM = register(OpKind("CumSum", _cumsum_spec, lambda t, axis, dim: tf.cumsum(t, dim)))
_HISTOGRAM = register(OpKind("Histogram", _histogram_spec, _histogram, Gradient.CUT))
_TOPK = register(OpKind("TopK", _topk_spec, _topk))


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Returns the index of the greatest element along an axis, of equal ones the first.

    Args:
        t: the tensor.
        dim: the axis; negative ones count from the last.
        keepdim: whether the axis stays, with size 1.

    Raises:
        popart.popart_exception: If there is no such axis.
    """
    return building.add(_ARGMAX, t, dim=dim, keepdim=keepdim)


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Returns the index of the smallest element along an axis, of equal ones the first.

    Args:
        t: the tensor.
        dim: the axis; negative ones count from the last.
        keepdim: whether the axis stays, with size 1.

    Raises:
        popart.popart_exception: If there is no such axis.
    """
    return building.add(_ARGMIN, t, dim=dim, keepdim=keepdim)


def cumsum(t: Tensor, dim: int = 0) -> Tensor:
    """Returns the sums of all elements up to each along an axis.

    Args:
        t: the tensor.
        dim: the axis; negative ones count from the last.

    Raises:
        popart.popart_exception: If there is no such axis.
    """
    building.check_tensor(t)
    return building.add(_CUMSUM, t, constant(dim, dtypes.int32, "axis"), dim=dim)


def histogram(t: Tensor, levels: Sequence[float], absolute_of_input: bool) -> Tensor:
    """Returns how many elements are below the first of some levels, between two, and above.

    Args:
        t: a tensor of floats.
        levels: the levels, in ascending order. An element that equals one is above it.
        absolute_of_input: whether absolute values are counted.

    Returns:
        One number more than there are levels.

    Raises:
        ValueError: If the levels are not in ascending order.
        popart.popart_exception: If the elements are no floats.
    """
    if any(b <= a for a, b in zip(levels, levels[1:])):
        raise ValueError(f"levels is not a monotonically increasing list: {list(levels)}")
    return building.add(_HISTOGRAM, t, levels=tuple(levels), absolute=absolute_of_input)


def topk(
    t: Tensor,
    k: int,
    axis: int,
    largest: bool,
    sorted: bool,  # noqa: A002
    available_memory_proportion: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the greatest or smallest elements along an axis, and their indices.

    Args:
        t: the tensor.
        k: how many.
        axis: the axis; negative ones count from the last.
        largest: whether to take the greatest ones.
        sorted: whether they have to be in order. They are in any case.
        available_memory_proportion: the part of a tile's memory that the op may use.

    Raises:
        popart.popart_exception: If there are fewer elements, or there is no such axis.
    """
    values, indices = building.add_all(
        _TOPK,
        [t],
        ["topk_values", "topk_indices"],
        k=k,
        axis=axis,
        largest=largest,
        memory_proportion=available_memory_proportion,
    )
    return values, indices
