"""Reductions, and ops that order elements along an axis."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ops.elementwise import absolute
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant

Axes = Optional[Union[int, Sequence[int]]]


def _spec(
    specs: shapes.Specs, axes: tuple[int, ...] | None, keepdims: bool, what: str
) -> list[TensorSpec]:
    (spec,) = specs
    reduced = _axes_of(spec.rank, axes, what)
    kept = [(1 if i in reduced else size, i in reduced) for i, size in enumerate(spec.shape)]
    return [spec.with_shape(tuple(size for size, gone in kept if keepdims or not gone))]


def _axes_of(rank: int, axes: tuple[int, ...] | None, what: str) -> list[int]:
    if axes is None:
        return list(range(rank))
    return [shapes.positive_axis(axis, rank, what) for axis in axes]


def _reduction(
    name: str,
    compute: Callable[..., Any],
    gradient: Any = GradientRule.DERIVED,
    has_indices: bool = False,
) -> OpKind:
    """Enters a reduction into the table.

    Args:
        name: its type.
        compute: takes a tensor, a list of axes and whether they stay with size 1.
        gradient: how to differentiate it.
        has_indices: whether `compute` returns the indices of the elements, too.
    """

    def reduce(t: Any, axes: tuple[int, ...] | None, keepdims: bool) -> Any:
        return compute(t, _axes_of(len(t.shape), axes, name), keepdims)

    def infer(
        specs: shapes.Specs, axes: tuple[int, ...] | None, keepdims: bool
    ) -> list[TensorSpec]:
        (spec,) = _spec(specs, axes, keepdims, name)
        return [spec, spec.with_dtype(dtypes.int32)] if has_indices else [spec]

    return register(OpKind(name, infer, reduce, gradient))


def _extreme_gradient(
    inputs: Any, outputs: Any, gradients: Any, axes: tuple[int, ...] | None, keepdims: bool
) -> list[Any]:
    """The whole gradient for every element that equals the result."""
    shape = [*inputs[0].shape]
    for axis in _axes_of(len(shape), axes, "Reduce"):
        shape[axis] = 1
    result, gradient = (tf.reshape(t, shape) for t in (outputs[0], gradients[0]))
    zeros = tf.zeros_like(inputs[0])
    return [tf.where(tf.equal(inputs[0], result), gradient + zeros, zeros)]


def _median(t: Any, axes: list[int], keepdims: bool) -> list[Any]:
    """The element in the middle, the lower one of two, and its index along the axes."""
    others = [axis for axis in range(len(t.shape)) if axis not in axes]
    kept = [t.shape[axis] for axis in others]
    rows = tf.reshape(tf.transpose(t, [*others, *axes]), [*kept, -1])
    count = rows.shape[-1]
    # The smallest ones are the greatest in the other order: sorting has no gradient of its own.
    greatest = tf.math.top_k(kernels.descending(rows), (count + 1) // 2)
    found = [kernels.descending(greatest.values[..., -1]), greatest.indices[..., -1]]
    shape = [1 if axis in axes else size for axis, size in enumerate(t.shape)]
    return [tf.reshape(part, shape) for part in found] if keepdims else found


def _log_sum(t: Any, axes: list[int], keepdims: bool) -> Any:
    return tf.math.log(tf.reduce_sum(t, axes, keepdims))


def _l2(t: Any, axes: list[int], keepdims: bool) -> Any:
    return tf.sqrt(tf.reduce_sum(t * t, axes, keepdims))


_L1 = _reduction("ReduceL1", lambda t, axes, keep: tf.reduce_sum(absolute(t), axes, keep))


_L2 = _reduction("ReduceL2", _l2)


_LOGSUM = _reduction("ReduceLogSum", _log_sum)


_LOGSUMEXP = _reduction("ReduceLogSumExp", tf.reduce_logsumexp)


_MAX = _reduction("ReduceMax", tf.reduce_max, _extreme_gradient)


_MEAN = _reduction("ReduceMean", tf.reduce_mean)


_MEDIAN = _reduction("ReduceMedian", _median, has_indices=True)


_MIN = _reduction("ReduceMin", tf.reduce_min, _extreme_gradient)


_PROD = _reduction("ReduceProd", tf.reduce_prod)


_SUM = _reduction("ReduceSum", tf.reduce_sum)


_SUMSQUARE = _reduction("ReduceSumSquare", lambda t, axes, keep: tf.reduce_sum(t * t, axes, keep))


def _reduce(kind: OpKind, t: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """Adds a reduction."""
    if axis is None:
        axes = None
    else:
        axes = tuple(int(i) for i in np.atleast_1d(np.asarray(axis)))
    return building.add(kind, t, axes=axes, keepdims=builtins.bool(keepdims))


def l1(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the sum of absolute values.

    Args:
        t: the tensor.
        axis: an axis or axes, negative ones counted from the last; all by default.
        keepdims: whether these axes stay, with size 1.

    Raises:
        popart.popart_exception: If there is no such axis.
    """
    return _reduce(_L1, t, axis, keepdims)


def l2(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the root of the sum of squares; arguments as for `l1`."""
    return _reduce(_L2, t, axis, keepdims)


def logsum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the logarithm of the sum; arguments as for `l1`."""
    return _reduce(_LOGSUM, t, axis, keepdims)


def logsumexp(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the logarithm of the sum of exponentials; arguments as for `l1`."""
    return _reduce(_LOGSUMEXP, t, axis, keepdims)


def max(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Returns the greatest element; arguments as for `l1`."""
    return _reduce(_MAX, t, axis, keepdims)


def mean(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the mean; arguments as for `l1`."""
    return _reduce(_MEAN, t, axis, keepdims)


def median(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the median, of an even number of elements the lower one in the middle.

    Args:
        t: the tensor.
        axis: an axis or axes, negative ones counted from the last; all by default.
        keepdims: whether these axes stay, with size 1.

    Raises:
        popart.popart_exception: If there is no such axis.
    """
    return _reduce(_MEDIAN, t, axis, keepdims)


def min(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Returns the smallest element; arguments as for `l1`."""
    return _reduce(_MIN, t, axis, keepdims)


def prod(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the product; arguments as for `l1`."""
    return _reduce(_PROD, t, axis, keepdims)


def sum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Returns the sum; arguments as for `l1`."""
    return _reduce(_SUM, t, axis, keepdims)


def sumsquare(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the sum of squares; arguments as for `l1`."""
    return _reduce(_SUMSQUARE, t, axis, keepdims)


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


_ARGMAX = register(OpKind("ArgMax", _place_spec, _place(tf.argmax), GradientRule.CUT))


_ARGMIN = register(OpKind("ArgMin", _place_spec, _place(tf.argmin), GradientRule.CUT))


_CUMSUM = register(OpKind("CumSum", _cumsum_spec, lambda t, axis, dim: tf.cumsum(t, dim)))


_HISTOGRAM = register(OpKind("Histogram", _histogram_spec, _histogram, GradientRule.CUT))


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
