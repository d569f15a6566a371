"""Groups of replicas of a collective: `CommGroup`, and the attributes of its op."""

from __future__ import annotations

import enum
from typing import Any

from tensorflow_ipu import op_names
from tensorflow_ipu.frontends.popxl import context
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping


class CommGroupType(enum.Enum):
    """How replicas are put into groups.

    * `All`: one group.
    * `Consecutive`: the first so many, the next so many, and so on.
    * `Orthogonal`: so many replicas at the largest equal distance.
    * `Ungrouped`: each replica alone.
    """

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class CommGroup:
    """Groups of replicas, by their kind and size.

    Attributes:
        type: How replicas are put into groups.
        replicaGroupSize: Replicas of a group; 0 where the kind says it.
    """

    def __init__(
        self,
        type: CommGroupType | int | ReplicaGrouping = CommGroupType.All,  # noqa: A002
        replicaGroupSize: int = 0,  # noqa: N803
    ) -> None:
        """Makes a description of groups.

        Args:
            type: the kind; or a grouping to describe.
            replicaGroupSize: replicas of a group.

        Raises:
            ValueError: If a grouping is of none of the kinds.
        """
        if isinstance(type, ReplicaGrouping):
            type, replicaGroupSize = _described(type)  # noqa: N806
        self.type = CommGroupType(type)
        self.replicaGroupSize = replicaGroupSize

    def __repr__(self) -> str:
        return f"CommGroup(type={self.type}, replicaGroupSize={self.replicaGroupSize})"

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:  # noqa: N802, N803
        """Returns the same as a grouping.

        Args:
            numReplicas: how many replicas there are.

        Raises:
            ValueError: If the size does not divide the number of replicas.
        """
        size = {CommGroupType.All: numReplicas, CommGroupType.Ungrouped: 1}.get(
            self.type, self.replicaGroupSize
        )
        if size < 1 or numReplicas % size:
            raise ValueError(
                f"The group size must be a factor of the number of replicas, {numReplicas}. "
                f"Received: {self!r}"
            )
        stride = numReplicas // size if self.type is CommGroupType.Orthogonal else 1
        return ReplicaGrouping.strided(numReplicas, stride, size)


def _described(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
    """Returns the kind of a grouping, and its size where that matters."""
    size, stride = grouping.group_size, grouping.stride
    if size == grouping.num_replicas:
        return CommGroupType.All, 0
    if size == 1:
        return CommGroupType.Ungrouped, 0
    if stride == 1:
        return CommGroupType.Consecutive, size
    if stride * size == grouping.num_replicas:
        return CommGroupType.Orthogonal, size
    raise ValueError(f"{grouping!r} is neither consecutive nor orthogonal, so no CommGroup is it.")


def of(group: ReplicaGrouping | CommGroup | None) -> dict[str, Any]:
    """Returns the attributes of a collective for its groups: `stride` and `size`.

    Args:
        group: the groups of the user; all replicas by default.

    Raises:
        TypeError: If it is no grouping.
        ValueError: If it is for another number of replicas, or groups of replicas at a distance do
            not fill blocks of replicas.
        NotImplementedError: If replicas are not at equal distances.
    """
    replicas = context.get_ir().replication_factor
    if group is None:
        return {"stride": 1, "size": replicas}
    if isinstance(group, CommGroup):
        group = group.toReplicaGrouping(replicas)
    if not isinstance(group, ReplicaGrouping):
        raise TypeError(f"group must be a popxl.ReplicaGrouping or None. Received: {group!r}")
    if group.num_replicas != replicas:
        raise ValueError(
            f"{group!r} is for {group.num_replicas} replicas, and the Ir has {replicas}. Set "
            "ir.replication_factor before making groupings."
        )
    group.check_usable()
    return {"stride": group.stride, "size": group.group_size}


def exchanged(op_type: str, size: int) -> dict[str, Any] | None:
    """Returns the composite that a plan charges for a collective among the members of a group.

    Args:
        op_type: type of the device's collective.
        size: how many members there are; None for one.
    """
    group = op_names.COLLECTIVES[op_type].group
    return {"type": op_type, "attributes": {group: size}} if size > 1 else None
