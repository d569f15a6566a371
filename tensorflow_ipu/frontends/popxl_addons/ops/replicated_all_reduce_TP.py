"""Sums over replicas, with gradients; `popxl_addons.ops.replicated_all_reduce_TP`."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.ops import collectives

__all__ = [
    "replicated_all_reduce",
    "replicated_all_reduce_identical_grad_inputs",
    "replicated_all_reduce_identical_inputs",
]


def replicated_all_reduce(
    t: popxl.Tensor, op: str = "add", group: popxl.ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Returns the sum of the tensors of all replicas of a group; its gradient is summed likewise.

    Args:
        t: the tensor of this replica.
        op: "add".
        group: which replicas belong together; all by default.

    Raises:
        popart.popart_exception: If `op` is something else.
        ValueError: If groups do not fit the replicas.
    """
    _check(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group)


def replicated_all_reduce_identical_inputs(
    t: popxl.Tensor, op: str = "add", group: popxl.ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Returns a tensor that replicas of a group have in common; its gradient is their sum.

    It stands where a layer that is spread over replicas begins.

    Args:
        t: the tensor, equal on the replicas of a group.
        op: "add".
        group: which replicas belong together; all by default.

    Raises:
        Exception: As `replicated_all_reduce` does.
    """
    _check(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group, identical_inputs=True)


def replicated_all_reduce_identical_grad_inputs(
    t: popxl.Tensor, op: str = "add", group: popxl.ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Returns the sum of the tensors of a group; its gradient, which they share, stays as it is.

    It stands where a layer that is spread over replicas ends.

    Args:
        t: the tensor of this replica.
        op: "add".
        group: which replicas belong together; all by default.

    Raises:
        Exception: As `replicated_all_reduce` does.
    """
    _check(op)
    return collectives.replicated_all_reduce_with_grad(t, op, group, identical_gradients=True)


def _check(op: str) -> None:
    if op != "add":
        raise popxl.errors.popart_exception(
            f"Only 'add' is supported by the ops of replicated_all_reduce_TP. Received: op={op!r}"
        )
