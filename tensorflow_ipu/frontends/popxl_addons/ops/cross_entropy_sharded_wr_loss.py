"""A classifier's loss from logits on several IPUs; `ops.cross_entropy_sharded_wr_loss`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.shards import chosen

__all__ = ["cross_entropy_sharded_wr_loss", "handle_ipus"]


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
            labels.append(chosen(x, index - first))
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
