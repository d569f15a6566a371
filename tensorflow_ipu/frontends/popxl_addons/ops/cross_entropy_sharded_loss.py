"""A classifier's loss from logits of several replicas; `ops.cross_entropy_sharded_loss`."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs,
)
from tensorflow_ipu.frontends.popxl_addons.shards import chosen

__all__ = ["REDUCTION_TYPE", "cross_entropy_sharded_loss"]


REDUCTION_TYPE = Literal["mean", "sum", "none"]


_REDUCTIONS = ("mean", "sum", "none")


def cross_entropy_sharded_loss(
    logits: popxl.Tensor,
    indices: popxl.Tensor,
    ignore_index: popxl.Tensor | int | None = None,
    replica_grouping: popxl.ReplicaGrouping | None = None,
    reduction: REDUCTION_TYPE = "mean",
    available_memory_proportion: float = 0.4,
) -> popxl.Tensor:
    """Returns the cross entropy of logits whose classes are spread over replicas.

    Args:
        logits: the logits of this replica's classes, `(n, classes of a replica)`.
        indices: the class of each item, `(n,)`, less the number of this replica's first class: one
            of another replica is below 0, or too large.
        ignore_index: an index whose items do not count.
        replica_grouping: which replicas have the classes together; all by default.
        reduction: "mean" over the items that count, "sum", or "none".
        available_memory_proportion: without effect: no op here has such an option.

    Returns:
        The loss, in the type of the logits, equal on all replicas of a group.

    Raises:
        ValueError: If the reduction is another one, or groups do not fit the replicas.
    """
    del available_memory_proportion
    if reduction not in _REDUCTIONS:
        raise ValueError(f"Not a valid reduction: {reduction!r}. Expected one of: {_REDUCTIONS}")
    x = ops.cast(logits, popxl.float32)
    largest = collectives.replicated_all_reduce(
        ops.max(x, 1, keepdims=True), "max", replica_grouping
    )
    x = x - largest
    exponentials, label = (
        replicated_all_reduce_identical_grad_inputs(part, group=replica_grouping)
        for part in (ops.sum(ops.exp(x), 1), chosen(x, indices))
    )
    loss = ops.log(exponentials) - label
    counts = popxl.constant(np.ones(loss.shape, np.float32))
    if ignore_index is not None:
        zeros = popxl.constant(np.zeros(loss.shape, np.float32))
        ignored = ops.equal(indices, _index(ignore_index, indices.dtype))
        loss, counts = ops.where(ignored, zeros, loss), ops.where(ignored, zeros, counts)
    if reduction != "none":
        loss = ops.sum(loss)
    if reduction == "mean":
        one = popxl.constant(1.0, popxl.float32)
        loss = loss / ops.maximum(ops.sum(counts), one)
    return ops.cast(loss, logits.dtype)


def _index(index: popxl.Tensor | int, dtype: popxl.dtype) -> popxl.Tensor:
    """Returns an index as a tensor of a type."""
    if not isinstance(index, popxl.Tensor):
        return popxl.constant(index, dtype)
    return index if index.dtype is dtype else ops.cast(index, dtype)
