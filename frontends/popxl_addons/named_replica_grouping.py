"""`NamedReplicaGrouping`: groupings of replicas by name; the module of that name."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree

__all__ = [
    "NamedReplicaGrouping",
    "get_ild_replica_grouping",
    "get_instance_replica_grouping",
    "is_cross_ild",
    "is_cross_instance",
]

# How many IPUs an IPU-Link domain has at most, unless the launcher says otherwise.
_DOMAIN = 64
_DOMAIN_VARIABLE = "POPDIST_REPLICA_INDEX_OFFSET_IN_ILD"


class NamedReplicaGrouping(DotTree[popxl.ReplicaGrouping]):
    """Groupings of replicas by name."""

    @classmethod
    def build_groups(
        cls, names: Iterable[str], value: popxl.ReplicaGrouping
    ) -> NamedReplicaGrouping:
        """Makes a tree with one grouping for all names.

        Args:
            names: the names, with dots.
            value: the grouping.
        """
        return cls.from_dict(dict.fromkeys(names, value))


def get_instance_replica_grouping(
    replica_group: popxl.ReplicaGrouping | None = None,
) -> popxl.ReplicaGrouping:
    """Returns the parts of a grouping that are each inside one process.

    Args:
        replica_group: the grouping; all replicas by default.
    """
    return _inside(replica_group, popxl.gir().instance_replication_factor)


def get_ild_replica_grouping(
    replica_group: popxl.ReplicaGrouping | None = None,
) -> popxl.ReplicaGrouping:
    """Returns the parts of a grouping that are each inside one IPU-Link domain.

    Args:
        replica_group: the grouping; all replicas by default.
    """
    return _inside(replica_group, _domain())


def is_cross_instance(replica_group: popxl.ReplicaGrouping) -> bool:
    """Whether a group has replicas of several processes.

    Args:
        replica_group: the grouping.
    """
    return get_instance_replica_grouping(replica_group) != replica_group


def is_cross_ild(replica_group: popxl.ReplicaGrouping) -> bool:
    """Whether a group has replicas of several IPU-Link domains.

    Args:
        replica_group: the grouping.
    """
    return get_ild_replica_grouping(replica_group) != replica_group


def _domain() -> int:
    """Returns how many replicas an IPU-Link domain has."""
    asked = int(os.environ.get(_DOMAIN_VARIABLE, 0))
    return min(popxl.gir().replication_factor, asked or _DOMAIN)


def _inside(grouping: popxl.ReplicaGrouping | None, size: int) -> popxl.ReplicaGrouping:
    """Returns the parts of a grouping inside blocks of consecutive replicas."""
    ir = popxl.gir()
    whole = (grouping or ir.replica_grouping()).assignment
    numbers: dict[tuple[int, int], int] = {}
    parts = [
        numbers.setdefault((group, replica // size), len(numbers))
        for replica, group in enumerate(whole)
    ]
    return ir.replica_grouping_from_assignments(parts)
