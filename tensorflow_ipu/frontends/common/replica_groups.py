"""Groups of replicas: `CommGroup` and `ReplicaGrouping`."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.frontends.common.enums import CommGroupType
from tensorflow_ipu.frontends.common.errors import popart_exception


class ReplicaGrouping:
    """Groups of replicas; the replicas of a group are `stride` apart."""

    def __init__(self, numReplicas: int, stride: int = 1, groupSize: int | None = None) -> None:
        """Takes the grouping.

        Args:
            numReplicas: number of all replicas.
            stride: distance between replicas of a group.
            groupSize: replicas in a group; all by default.

        Raises:
            popart_exception: If a number is not positive, or they do not fit each other.
        """
        size = numReplicas if groupSize is None else groupSize
        stride = 1 if size == 1 else stride
        if min(numReplicas, stride, size) < 1:
            raise popart_exception(
                "The number of replicas, the stride and the group size must be positive. "
                f"Received: {numReplicas}, {stride}, {size}"
            )
        if numReplicas % (stride * size):
            raise popart_exception(
                f"The number of replicas, {numReplicas}, must be divisible by the product of the "
                f"stride and the group size, {stride} * {size}."
            )
        self.numReplicas, self.stride, self.groupSize = numReplicas, stride, size

    def __repr__(self) -> str:
        return f"ReplicaGrouping({self.numReplicas}, {self.stride}, {self.groupSize})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGrouping) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.numReplicas, self.stride, self.groupSize))

    def group_of(self, replica: int) -> int:
        """Returns the group of a replica.

        Args:
            replica: its number.
        """
        return replica % self.stride + self.stride * (replica // (self.stride * self.groupSize))

    def groups(self) -> list[list[int]]:
        """Returns the replicas of each group."""
        found: list[list[int]] = [[] for _ in range(self.numReplicas // self.groupSize)]
        for replica in range(self.numReplicas):
            found[self.group_of(replica)].append(replica)
        return found


class CommGroup:
    """Which replicas make a group."""

    def __init__(self, type: Any = CommGroupType.All, replicaGroupSize: int = 0) -> None:  # noqa: A002
        """Takes the group.

        Args:
            type: the kind of group, or a `ReplicaGrouping`.
            replicaGroupSize: replicas in a group; of no meaning for all replicas.

        Raises:
            popart_exception: If no kind of group stands for the `ReplicaGrouping`.
        """
        if isinstance(type, ReplicaGrouping):
            type, replicaGroupSize = _kind_of(type)
        self.type = CommGroupType(type)
        self.replicaGroupSize = int(replicaGroupSize)

    def __repr__(self) -> str:
        return f"CommGroup({self.type.name}, {self.replicaGroupSize})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommGroup) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.type, self.replicaGroupSize))

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """Returns the groups among a number of replicas.

        Args:
            numReplicas: the number.

        Raises:
            popart_exception: If it does not fit.
        """
        size = self.replicaGroupSize
        if self.type is CommGroupType.All:
            return ReplicaGrouping(numReplicas, 1, numReplicas)
        if self.type is CommGroupType.Ungrouped:
            return ReplicaGrouping(numReplicas, 1, 1)
        if self.type is CommGroupType.Orthogonal and size > 0:
            return ReplicaGrouping(numReplicas, max(1, numReplicas // size), size)
        return ReplicaGrouping(numReplicas, 1, size)


def _kind_of(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
    """Returns the kind of group that stands for a grouping."""
    count, stride, size = grouping.numReplicas, grouping.stride, grouping.groupSize
    if size == count:
        return CommGroupType.All, size
    if size == 1:
        return CommGroupType.Ungrouped, 1
    if stride == 1:
        return CommGroupType.Consecutive, size
    if stride == count // size:
        return CommGroupType.Orthogonal, size
    raise popart_exception(f"No CommGroup stands for {grouping}.")
