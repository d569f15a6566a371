"""`NamedReplicaGrouping`: groupings of replicas by name; the module of that name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from tensorflow_ipu.configs.flags import TARGET_OPTIONS
from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.dot_tree import DotTree

__all__ = [
    "NamedReplicaGrouping",
    "fill_none_group",
    "get_ild_replica_grouping",
    "get_ild_size_from_popdist",
    "get_instance_replica_grouping",
    "is_cross_ild",
    "is_cross_instance",
]

# How many IPUs an IPU-Link domain has at most, unless the launcher says otherwise.
_DOMAIN = 64
_DOMAIN_OPTION = "ipuLinkDomainSize"


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


def fill_none_group(
    rg: popxl.ReplicaGrouping | None, none_value: popxl.ReplicaGrouping
) -> popxl.ReplicaGrouping:
    """Returns a grouping, or another one if there is none.

    Args:
        rg: the grouping, or None.
        none_value: the other one.
    """
    return none_value if rg is None else rg


def get_instance_replica_grouping(
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> popxl.ReplicaGrouping:
    """Returns the parts of a grouping that are each inside one process.

    Args:
        replica_grouping: the grouping; all replicas by default.
    """
    return _inside(replica_grouping, popxl.gir().instance_replication_factor)


def get_ild_replica_grouping(
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> popxl.ReplicaGrouping:
    """Returns the parts of a grouping that are each inside one IPU-Link domain.

    Args:
        replica_grouping: the grouping; all replicas by default.

    Raises:
        ValueError: As `get_ild_size_from_popdist` does.
    """
    return _inside(replica_grouping, get_ild_size_from_popdist())


def is_cross_instance(replica_grouping: popxl.ReplicaGrouping) -> bool:
    """Whether a group has replicas of several processes.

    Args:
        replica_grouping: the grouping.
    """
    return get_instance_replica_grouping(replica_grouping) != replica_grouping


def is_cross_ild(replica_grouping: popxl.ReplicaGrouping) -> bool:
    """Whether a group has replicas of several IPU-Link domains.

    Args:
        replica_grouping: the grouping.

    Raises:
        ValueError: As `get_ild_size_from_popdist` does.
    """
    return get_ild_replica_grouping(replica_grouping) != replica_grouping


def get_ild_size_from_popdist() -> int:
    """Returns how many replicas an IPU-Link domain has.

    That is `ipuLinkDomainSize` of the environment variable POPLAR_TARGET_OPTIONS, which is JSON;
    else 64, or all replicas if there are fewer.

    Raises:
        ValueError: If the variable is no JSON, or the number is none.
    """
    text = os.environ.get(TARGET_OPTIONS)
    if text:
        try:
            asked = json.loads(text).get(_DOMAIN_OPTION)
            if asked is not None:
                return int(asked)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{TARGET_OPTIONS} must be a JSON object, in which {_DOMAIN_OPTION} is a number."
                f" Received: {text!r}"
            ) from error
    return min(popxl.gir().replication_factor, _DOMAIN)


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
