"""Gathers over replicas at a distance."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.ops import collectives

__all__ = ["replicated_all_gather_strided"]

Group = popxl.ReplicaGrouping


def replicated_all_gather_strided(t: popxl.Tensor, group: Group | None = None) -> popxl.Tensor:
    """Returns the tensors of all replicas of a group.

    Args:
        t: the tensor of this replica.
        group: which replicas belong together; all by default.

    Returns:
        A vector of all elements, in the order of the replicas; for a shard, the tensor whose shards
        these are.

    Raises:
        ValueError: If groups do not fit the replicas.
    """
    if t.meta_shape:
        return collectives.replicated_all_gather(t, group=group, output_shape="meta_shape")
    return collectives.replicated_all_gather(t.flatten(), 0, group, "concat")
