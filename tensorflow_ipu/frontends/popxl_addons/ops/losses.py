"""Cross entropy of a classifier, also of classes spread over replicas or IPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.ops.tensor_parallel import (
    replicated_all_reduce_identical_grad_inputs,
)

__all__ = [
    "REDUCTION_TYPE",
    "cross_entropy",
    "cross_entropy_sharded_loss",
    "cross_entropy_sharded_wr_loss",
    "cross_entropy_with_grad",
    "handle_ipus",
]


REDUCTION_TYPE = Literal["mean", "sum", "none"]
_REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> popxl.Tensor:
    """Returns the cross entropy of logits and labels.

    Args:
        x: logits, with the classes in the last dimension.
        labels: the class of each item, integers.
        ignore_index: a label whose items do not count.
        reduction: "mean" over the items that count, "sum", or "none".

    Returns:
        The loss, in the type of the logits.

    Raises:
        ValueError: If the reduction is another one.
    """
    return ops.nll_loss(ops.softmax(x, -1), labels, ignore_index, reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float | popxl.Tensor = 1,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Returns the cross entropy of logits and labels, and its gradient.

    Args:
        x: logits, with the classes in the last dimension.
        labels: the class of each item, integers.
        loss_scaling: a factor of the gradient; the loss is not scaled.
        ignore_index: a label whose items do not count.
        reduction: "mean" over the items that count, "sum", or "none".

    Returns:
        The loss, and the gradient with respect to the logits.

    Raises:
        ValueError: If the reduction is another one.
    """
    probs = ops.softmax(x, -1)
    return ops.nll_loss_with_softmax_grad(probs, labels, loss_scaling, ignore_index, reduction)


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
        for part in (ops.sum(ops.exp(x), 1), _chosen(x, indices))
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


def cross_entropy_sharded_wr_loss(
    logits: Sequence[popxl.Tensor],
    indices: Sequence[popxl.Tensor],
    ipus: Sequence[int] | None = None,
) -> list[popxl.Tensor]:
    """Returns the cross entropy of logits whose classes are spread over the IPUs of a replica.

    Args:
        logits: for each IPU the logits of its classes, `(n, classes of an IPU)`. IPUs may have
            different numbers of classes.
        indices: on each IPU the class of each item, `(n,)`: the same numbers on all IPUs, from 0
            to the number of all classes.
        ipus: the IPU of each; what the tensors say by default.

    Returns:
        The loss of each item, `(n,)`, on each of the IPUs, in the type of the logits. The gradient
        of one of them suffices: it is taken for that of the others, if they have none.

    Raises:
        ValueError: If there are not as many indices and IPUs as logits, or nothing says where a
            tensor is.
    """
    logits, indices = list(logits), list(indices)
    places = handle_ipus(logits, ipus)
    if not len(logits) == len(indices) == len(places):
        raise ValueError(
            "There must be as many indices and IPUs as logits. Received: "
            f"{len(logits)} logits, {len(indices)} indices, ipus={places}"
        )
    wide = [_on(ipu, ops.cast, t, popxl.float32) for ipu, t in zip(places, logits)]
    largest = collectives.all_reduce(
        [_on(ipu, ops.max, t, 1, True) for ipu, t in zip(places, wide)], places, "max"
    )
    sums, labels, first = [], [], 0
    for ipu, x, most, index in zip(places, wide, largest, indices):
        with popxl.ipu(ipu):
            x = x - ops.detach(most)
            sums.append(ops.sum(ops.exp(x), 1))
            labels.append(_chosen(x, index - first))
        first += x.shape[1]
    sums, labels = (
        collectives.all_reduce_identical_grad_inputs(parts, places) for parts in (sums, labels)
    )
    losses = []
    for ipu, total, label, given in zip(places, sums, labels, logits):
        with popxl.ipu(ipu):
            losses.append(ops.cast(ops.log(total) - label, given.dtype))
    return losses


def handle_ipus(ts: Iterable[popxl.Tensor], ipus: Sequence[int] | None = None) -> list[int]:
    """Returns the IPU of each tensor.

    Args:
        ts: the tensors.
        ipus: their IPUs; those of the ops that make or take the tensors by default.

    Raises:
        ValueError: If nothing says where a tensor is.
    """
    if ipus is not None:
        return list(ipus)
    try:
        return [tensor.ipu for tensor in ts]
    except popxl.errors.UndefinedValue as error:
        raise ValueError(
            "Could not automatically infer the IPU of all input Tensors. Please specify the IPUs "
            f"via the `ipus` parameter. {error}"
        ) from None


def _on(ipu: int, op: Callable[..., popxl.Tensor], *arguments: Any) -> popxl.Tensor:
    """Returns the result of an op on an IPU."""
    with popxl.ipu(ipu):
        return op(*arguments)


def _chosen(x: popxl.Tensor, indices: popxl.Tensor) -> popxl.Tensor:
    """Returns one element of each row, and 0 where the index belongs to another shard.

    Args:
        x: the rows, `(n, size)`.
        indices: the position of the element in each row, `(n,)`; any integers.
    """
    positions = popxl.constant(np.arange(x.shape[1]), indices.dtype)
    is_chosen = ops.equal(indices.reshape((-1, 1)), positions)
    zeros = popxl.constant(0.0, x.dtype)
    return ops.sum(ops.where(is_chosen, x, zeros), 1)
