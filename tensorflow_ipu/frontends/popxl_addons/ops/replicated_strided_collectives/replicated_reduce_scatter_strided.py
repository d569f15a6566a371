"""Sums over replicas at a distance, of which each replica keeps a part."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.ops.replicated_strided_collectives.replicated_all_reduce_strided import (  # noqa: E501
    check_op,
)

__all__ = ["replicated_reduce_scatter_strided"]

Group = popxl.ReplicaGrouping


def replicated_reduce_scatter_strided(
    t: popxl.Tensor,
    op: str = "add",
    group: Group | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> popxl.Tensor:
    """Returns this replica's part of the sum or mean of the tensors of a group.

    Args:
        t: the tensor of this replica.
        op: "add" or "mean".
        group: which replicas belong together; all by default.
        configure_output_for_replicated_tensor_sharding: whether the part is a shard, with the shape
            of `t` as its meta shape.

    Raises:
        Exception: As `replicated_all_reduce_strided` does.
    """
    check_op(op)
    return collectives.replicated_reduce_scatter(
        t, op, group, configure_output_for_replicated_tensor_sharding
    )
