"""Reductions over dimensions, and over replicas."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.common.enums import CollectiveOperator, CommGroupType
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.common.replica_groups import CommGroup
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import registry
from tensorflow_ipu.frontends.popart.ops.operands import axes_of, axis_of
from tensorflow_ipu.frontends.popart.ops.registry import COMM_GROUP, GRAPHCORE, op

#: What reductions compute of a tensor, its axes, and whether these are kept.
REDUCTIONS = {
    "ReduceL1": lambda x, axes, keep: tf.reduce_sum(tf.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: tf.sqrt(tf.reduce_sum(tf.square(x), axes, keep)),
    "ReduceLogSum": lambda x, axes, keep: tf.math.log(tf.reduce_sum(x, axes, keep)),
    "ReduceLogSumExp": tf.reduce_logsumexp,
    "ReduceMax": tf.reduce_max,
    "ReduceMean": tf.reduce_mean,
    "ReduceMin": tf.reduce_min,
    "ReduceProd": tf.reduce_prod,
    "ReduceSum": tf.reduce_sum,
    "ReduceSumSquare": lambda x, axes, keep: tf.reduce_sum(tf.square(x), axes, keep),
}


def _enter(type_: str, function: Any) -> None:
    def computed(x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return function(x, axes_of(axes, x.shape.rank), bool(keepdims))

    op(type_, 1, 11, folds=type_ == "ReduceProd")(computed)


for _type, _function in REDUCTIONS.items():
    _enter(_type, _function)


@op("ArgMax", 1, 11, gradient=GradientRule.NONE)
def _arg_max(x: Any, *, axis: int = 0, keepdims: int = 1) -> Any:
    return position(tf.argmax, x, axis, keepdims)


@op("ArgMin", 1, 11, gradient=GradientRule.NONE)
def _arg_min(x: Any, *, axis: int = 0, keepdims: int = 1) -> Any:
    return position(tf.argmin, x, axis, keepdims)


def position(function: Any, x: Any, axis: int, keepdims: int) -> Any:
    """Returns positions of extremes along an axis.

    Args:
        function: `tf.argmax` or `tf.argmin`.
        x: the tensor.
        axis: the axis.
        keepdims: whether it is kept, with size 1.
    """
    axis = axis_of(axis, x.shape.rank)
    found = function(x, axis, output_type=tf.int32)
    return tf.expand_dims(found, axis) if keepdims else found


@op("TopK", 1)
def _top_k_attribute(x: Any, *, k: int, axis: int = -1) -> Any:
    return _top_k(x, k, axis, True)


@op("TopK", 10, known=(1,))
def _top_k_input(x: Any, k: Any, *, axis: int = -1) -> Any:
    return _top_k(x, int(k.reshape(-1)[0]), axis, True)


@op("TopK", 11, known=(1,))
def _top_k_either(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted_: int = 1) -> Any:
    return _top_k(x, int(k.reshape(-1)[0]), axis, bool(largest))


def _top_k(x: Any, k: int, axis: int, largest: bool) -> Any:
    axis = axis_of(axis, x.shape.rank)
    if k > x.shape[axis]:
        raise popart_exception(
            f"Cannot take top-{k} on dim {axis} of size {x.shape[axis]} of a tensor."
        )
    last = x.shape.rank - 1
    order = [i for i in range(last + 1) if i != axis] + [axis]
    rows = tf.transpose(x, order)
    if largest:
        values, indices = tf.math.top_k(rows, k)
    else:
        indices = tf.argsort(rows, stable=True)[..., :k]
        values = tf.gather(rows, indices, batch_dims=last)
    back = [order.index(i) for i in range(last + 1)]
    return tf.transpose(values, back), tf.transpose(indices, back)


@op("Sort", 1, domain=GRAPHCORE)
def _sort(x: Any, *, axis: int = -1, descending: int = 0, stable: int = 0) -> Any:
    axis = axis_of(axis, x.shape.rank)
    direction = "DESCENDING" if descending else "ASCENDING"
    rank = x.shape.rank
    order = [i for i in range(rank) if i != axis] + [axis]
    rows = tf.transpose(x, order)
    indices = tf.argsort(rows, -1, direction, stable=True)
    values = tf.gather(rows, indices, batch_dims=rank - 1)
    back = [order.index(i) for i in range(rank)]
    return tf.transpose(values, back), tf.transpose(indices, back)


@op("ReduceMedian", 1, domain=GRAPHCORE)
def _median(x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
    axes = sorted(axes_of(axes, x.shape.rank))
    kept = [i for i in range(x.shape.rank) if i not in axes]
    shape = [x.shape[i] for i in kept]
    rows = tf.reshape(tf.transpose(x, [*kept, *axes]), [*shape, -1])
    order = tf.argsort(rows, stable=True)
    indices = order[..., (rows.shape[-1] - 1) // 2]
    values = tf.gather(rows, indices, axis=-1, batch_dims=len(shape))
    if keepdims:
        shape = [1 if i in axes else size for i, size in enumerate(x.shape.as_list())]
    return tf.reshape(values, shape), tf.reshape(indices, shape)


@op("CumSum", 11, known=(1,))
def _cumulative_sum(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    if axis.size != 1:
        raise popart_exception(f"The axis of CumSum must have one element. Received: {axis}")
    number = axis_of(int(axis.reshape(-1)[0]), x.shape.rank)
    return tf.cumsum(x, number, bool(exclusive), bool(reverse))


_O = CollectiveOperator
# PopXL's names of reductions; its "mul" is a mean.
_NAMES = {
    _O.Add: "add",
    _O.Mean: "mean",
    _O.Min: "min",
    _O.Max: "max",
    _O.LogicalAnd: "and",
    _O.LogicalOr: "or",
    _O.SquareAdd: "square_add",
}


def _group(context: Any) -> tuple[int, int]:
    """Returns stride and size of a group of replicas."""
    for attribute in context.node.attribute:
        if attribute.name == COMM_GROUP:
            kind, size = attribute.ints
            group = CommGroup(CommGroupType(kind), size)
            grouping = group.toReplicaGrouping(context.replicas)
            return grouping.stride, grouping.groupSize
    return 1, context.replicas


def _reduced(x: Any, operator: int, stride: int, size: int) -> Any:
    """Returns the reduction of a tensor over a group of replicas."""
    kind = CollectiveOperator(operator)
    if kind is _O.Local:
        return tf.identity(x)
    if kind in (_O.LogicalAnd, _O.LogicalOr) and x.dtype != tf.bool:
        raise popart_exception(
            f"{kind.name} reduces BOOL tensors. Received: {x.dtype.name}. Add a Cast."
        )
    if kind is _O.Mul:
        product = tf.reduce_prod(collectives.members(x, stride, size), 0)
        return product if size > 1 else tf.identity(x)
    return collectives.all_reduced(x, _NAMES[kind], stride, size)


@op("ReplicatedAllReduce", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _all_reduce(x: Any, *, collectiveOp: int = int(_O.Add), context: Any) -> Any:
    return _reduced(x, collectiveOp, *_group(context))


@op("ReplicatedReduceScatter", 1, domain=GRAPHCORE)
def _reduce_scatter(x: Any, *, collectiveOp: int = int(_O.Add), context: Any) -> Any:
    stride, size = _group(context)
    position = collectives.position(stride, size)
    if CollectiveOperator(collectiveOp) is not _O.Local:
        result = collectives.shards(_reduced(x, collectiveOp, stride, size), size)[position]
        return registry.with_refused_gradient(
            result,
            "ReplicatedReduceScatter: the grad op is only implemented when the collectiveOperator "
            "is Local.",
        )

    @tf.custom_gradient
    def own(x: Any) -> Any:
        def backward(above: Any) -> Any:
            whole = tf.reshape(collectives.members(above, stride, size), [-1])
            return tf.reshape(whole[: x.shape.num_elements()], x.shape)

        return collectives.shards(x, size)[position], backward

    return own(x)
