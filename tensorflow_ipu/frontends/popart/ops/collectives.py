"""Exchanges between replicas."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.common.replica_groups import CommGroup
from tensorflow_ipu.frontends.popart.enums import CollectiveOperator, CommGroupType
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import gradients
from tensorflow_ipu.frontends.popart.ops.kinds import COMM_GROUP, GRAPHCORE, Gradient, op

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
    """Returns the distance of the members of a group of replicas, and how many there are."""
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


@op("ReplicatedAllReduce", 1, domain=GRAPHCORE, gradient=Gradient.NONE)
def _all_reduce(x: Any, *, collectiveOp: int = int(_O.Add), context: Any) -> Any:
    return _reduced(x, collectiveOp, *_group(context))


@op("ReplicatedReduceScatter", 1, domain=GRAPHCORE)
def _reduce_scatter(x: Any, *, collectiveOp: int = int(_O.Add), context: Any) -> Any:
    stride, size = _group(context)
    position = collectives.position(stride, size)
    if CollectiveOperator(collectiveOp) is not _O.Local:
        result = collectives.shards(_reduced(x, collectiveOp, stride, size), size)[position]
        return gradients.refused(
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
