"""A classifier's loss from logits on several IPUs; `ops.cross_entropy_sharded_wr_loss`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.core.shards import chosen

__all__ = ["cross_entropy_sharded_wr_loss"]


def cross_entropy_sharded_wr_loss(
    logits: Sequence[popxl.Tensor],
    indices: Sequence[popxl.Tensor],
    ipus: Sequence[int] | None = None,
) -> list[popxl.Tensor]:
    """Returns the cross entropy of logits whose classes are spread over the IPUs of a replica.

    Args:
        logits: for each IPU the logits of its classes, `(n, classes of an IPU)`.
        indices: for each IPU the class of each item, `(n,)`, less the number of its first class.
        ipus: the IPU of each; what the tensors say by default.

    Returns:
        The loss of each item, `(n,)`, on each of the IPUs, in the type of the logits.

    Raises:
        ValueError: If there are not as many indices and IPUs as logits, or nothing says where a
            tensor is.
    """
    logits, indices = list(logits), list(indices)
    places = [tensor.ipu for tensor in logits] if ipus is None else list(ipus)
    if not len(logits) == len(indices) == len(places):
        raise ValueError(
            "There must be as many indices and IPUs as logits. Received: "
            f"{len(logits)} logits, {len(indices)} indices, ipus={places}"
        )
    wide = [_on(ipu, ops.cast, t, popxl.float32) for ipu, t in zip(places, logits)]
    largest = collectives.all_reduce(
        [_on(ipu, ops.max, t, 1, True) for ipu, t in zip(places, wide)], places, "max"
    )
    sums, labels = [], []
    for ipu, x, most, index in zip(places, wide, largest, indices):
        with popxl.ipu(ipu):
            x = x - ops.detach(most)
            sums.append(ops.sum(ops.exp(x), 1))
            labels.append(chosen(x, index))
    sums, labels = (
        collectives.all_reduce_identical_grad_inputs(parts, places) for parts in (sums, labels)
    )
    losses = []
    for ipu, total, label, given in zip(places, sums, labels, logits):
        with popxl.ipu(ipu):
            losses.append(ops.cast(ops.log(total) - label, given.dtype))
    return losses


def _on(ipu: int, op: Callable[..., popxl.Tensor], *arguments: Any) -> popxl.Tensor:
    """Returns the result of an op on an IPU."""
    with popxl.ipu(ipu):
        return op(*arguments)
