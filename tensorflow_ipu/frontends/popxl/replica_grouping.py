"""Groups of replicas, and the host's copy of a variable with a value for each group."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl.core.kinds import function

__all__ = ["ReplicaGrouping"]


class ReplicaGrouping:
    """A partition of the replicas into groups of one size.

    Attributes:
        num_replicas: How many replicas there are.
        assignment: The group of each replica, numbered in the order of their first replicas.
    """

    num_replicas: int
    assignment: list[int]

    def __init__(self) -> None:
        raise RuntimeError(
            "ReplicaGrouping cannot be constructed directly. Use ir.replica_grouping or "
            "ir.replica_grouping_from_assignments."
        )

    @classmethod
    def create(cls, assignment: Sequence[int]) -> ReplicaGrouping:
        """Makes a grouping; for this package only.

        Args:
            assignment: the group of each replica.
        """
        grouping = object.__new__(cls)
        grouping.num_replicas = len(assignment)
        grouping.assignment = list(assignment)
        return grouping

    @classmethod
    def strided(cls, num_replicas: int, stride: int, group_size: int | None) -> ReplicaGrouping:
        """Makes a grouping of replicas at equal distances; for this package only.

        Args:
            num_replicas: how many replicas there are.
            stride: the distance of replicas that follow each other in a group.
            group_size: replicas of a group; as many as there are at that distance by default.

        Raises:
            ValueError: If a number is out of its range, or the stride is no factor of the replicas.
        """
        if not 1 <= stride <= num_replicas:
            raise ValueError(
                f"Stride must be greater than zero and at most {num_replicas}, the number of "
                f"replicas. Received: stride={stride}"
            )
        if num_replicas % stride:
            raise ValueError(
                f"Stride must be a factor of the number of replicas, {num_replicas}. Received: "
                f"stride={stride}"
            )
        size = num_replicas // stride if group_size is None else group_size
        if not 1 <= size <= num_replicas:
            raise ValueError(
                f"Group size must be greater than zero and at most {num_replicas}, the number of "
                f"replicas. Received: group_size={group_size}"
            )
        return cls.create(_assign(num_replicas, stride if size > 1 else 1, size))

    @classmethod
    def assigned(cls, num_replicas: int, assignment: Sequence[int]) -> ReplicaGrouping:
        """Makes a grouping from the group of each replica; for this package only.

        Args:
            num_replicas: how many replicas there are.
            assignment: the group of each.

        Raises:
            ValueError: If it has another length, or groups of different size, or groups are not
                numbered from 0 in the order of their first replicas.
        """
        groups = list(dict.fromkeys(assignment))
        problem = ""
        if len(assignment) != num_replicas:
            problem = f"Its length does not equal the number of replicas, {num_replicas}."
        elif len({list(assignment).count(group) for group in groups}) > 1:
            problem = "All groups must have the same size."
        elif sorted(groups) != list(range(len(groups))):
            problem = "The groups are not numbered consecutively from 0."
        elif groups != sorted(groups):
            problem = "The first appearances of groups are not monotonically increasing."
        if problem:
            raise ValueError(f"{problem} Received: assignment={list(assignment)}")
        return cls.create(assignment)

    def __repr__(self) -> str:
        if not self.is_const:
            return f"ReplicaGrouping(assignment={self.assignment})"
        return (
            f"ReplicaGrouping(num_replicas={self.num_replicas}, stride={self.stride}, "
            f"group_size={self.group_size}, num_groups={self.num_groups})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplicaGrouping):
            raise TypeError(f"Value must be of type popxl.ReplicaGrouping. Received: {type(other)}")
        return self.assignment == other.assignment

    def __hash__(self) -> int:
        return hash(tuple(self.assignment))

    @property
    def _pb_replica_grouping(self) -> Any:
        """The grouping of `libpopart` that stands for it: bindings of operations take it.

        Raises:
            NotImplementedError: If its groups have no stride in common.
        """
        return function("pb_replica_grouping")(self)

    @property
    def group_size(self) -> int:
        """How many replicas a group has."""
        return self.assignment.count(0)

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return self.num_replicas // self.group_size

    @property
    def is_const(self) -> bool:
        """Whether the replicas of all groups are at one distance from each other."""
        return len(self._distances()) <= 1

    @property
    def stride(self) -> int:
        """The distance of replicas that follow each other in a group; 1 for groups of one.

        Raises:
            NotImplementedError: If there are several distances.
        """
        distances = self._distances()
        if len(distances) > 1:
            raise NotImplementedError(
                f"{self!r} has a non-constant stride. It can group variables, and nothing else."
            )
        return distances.pop() if distances else 1

    @property
    def const_rg(self) -> ReplicaGrouping:
        """A grouping at equal distances that divides the groups of this one; else this one."""
        if self.is_const:
            return self
        return self.create(_refined(self))

    @property
    def to_device_map(self) -> list[int] | None:
        """The group of this grouping for each one of `const_rg`; None if that is this one."""
        if self.is_const:
            return None
        finer = self.const_rg
        return [self.assignment[finer.members(group)[0]] for group in range(finer.num_groups)]

    @property
    def to_host_map(self) -> list[int] | None:
        """The first group of `const_rg` for each one of this; None if that is this one."""
        to_device = self.to_device_map
        return None if to_device is None else [to_device.index(g) for g in range(self.num_groups)]

    def check_usable(self) -> None:
        """Refuses groupings that neither collectives nor variables can have.

        Raises:
            ValueError: If groups of replicas at a distance do not fill blocks of replicas.
            NotImplementedError: If replicas of a group are not at equal distances.
        """
        if self.num_replicas % (self.stride * self.group_size):
            raise ValueError(
                f"The number of replicas, {self.num_replicas}, must be divisible by the product of "
                f"stride and group size, {self.stride} * {self.group_size}, of {self!r}."
            )

    def members(self, group: int) -> list[int]:
        """Returns the replicas of a group, in order.

        Args:
            group: number of the group.
        """
        return [replica for replica, own in enumerate(self.assignment) if own == group]

    def transpose(self) -> ReplicaGrouping:
        """Returns the grouping of the first replicas of all groups, of the second ones, and so on.

        Replicas that are at the same place in their groups are then in one group.
        """
        seen = [0] * self.num_groups
        places = []
        for group in self.assignment:
            places.append(seen[group])
            seen[group] += 1
        numbers: dict[Any, int] = {}
        return self.create([numbers.setdefault(place, len(numbers)) for place in places])

    def _distances(self) -> set[int]:
        """The distances between replicas that follow each other in a group."""
        groups = [self.members(group) for group in range(self.num_groups)]
        return {after - before for group in groups for before, after in zip(group, group[1:])}


def _refined(grouping: ReplicaGrouping) -> list[int]:
    """Returns groups at the smallest distance of neighbors, each in one group of a grouping.

    Groups are cut wherever a distance is larger. Then all are cut to the greatest common divisor of
    their sizes.
    """
    groups = [grouping.members(group) for group in range(grouping.num_groups)]
    stride = min(after - one for group in groups for one, after in zip(group, group[1:]))
    pieces: list[list[int]] = []
    for group in groups:
        for place, replica in enumerate(group):
            if place == 0 or replica - group[place - 1] > stride:
                pieces.append([])
            pieces[-1].append(replica)
    size = math.gcd(*map(len, pieces))
    parts = sorted(piece[i : i + size] for piece in pieces for i in range(0, len(piece), size))
    number = {replica: i for i, part in enumerate(parts) for replica in part}
    return [number[replica] for replica in range(grouping.num_replicas)]


def _assign(num_replicas: int, stride: int, size: int) -> list[int]:
    """Fills groups one after the other, each from the first replica that has none."""
    groups: list[int | None] = [None] * num_replicas
    number = 0
    for first in range(num_replicas):
        if groups[first] is None:
            for replica in range(first, min(first + stride * size, num_replicas), stride):
                groups[replica] = number
            number += 1
    return [group for group in groups if group is not None]


ALL_REPLICAS = "all_replicas"


_MODES = ("one_per_group", ALL_REPLICAS)


@dataclasses.dataclass(frozen=True)
class HostLayout:
    """How the host's copy of a variable is divided among replicas.

    Attributes:
        shape: The shape of the value, without the dimension for groups.
        grouping: Which replicas have the same value.
        retrieval_mode: Whose values come to the host: "one_per_group" or "all_replicas".
        shard_over: How many replicas share one value, each with a shard; 1 where all have it all.
        entry_shape: The shape of the entry of a remote buffer that holds the value or the shard;
            None for what is on the chip. It may have more elements or fewer: those that fit are
            there, in order.
    """

    shape: tuple[int, ...]
    grouping: ReplicaGrouping
    retrieval_mode: str = "one_per_group"
    shard_over: int = 1
    entry_shape: tuple[int, ...] | None = None

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the host's copy: one value for each group, if there are several."""
        groups = self.grouping.num_groups
        return self.shape if groups == 1 else (groups, *self.shape)

    @property
    def shape_on_device(self) -> tuple[int, ...]:
        """The shape of a replica's part: the entry, the value, or its shard."""
        if self.entry_shape is not None:
            return self.entry_shape
        return self.shape if self.shard_over == 1 else (self._shard_length,)

    @property
    def is_uniform(self) -> bool:
        """Whether all replicas start with one value, and the host reads replica 0 only."""
        several = self.grouping.num_groups > 1 or self.shard_over > 1
        return not (several or self.returns_all_replicas)

    @property
    def returns_all_replicas(self) -> bool:
        """Whether reading the variable returns a value for each replica."""
        return self.retrieval_mode == ALL_REPLICAS and self.grouping.group_size > 1

    @property
    def _shard_length(self) -> int:
        return -(-math.prod(self.shape) // self.shard_over)

    @property
    def _parts_are_values(self) -> bool:
        return self.shard_over == 1 and self.shape_on_device == self.shape

    @property
    def part_of_replica(self) -> list[int]:
        """The number of the part that each replica has: a value of a group, or a shard of it."""
        assignment = self.grouping.assignment
        return [
            group * self.shard_over + self._place(replica)
            for replica, group in enumerate(assignment)
        ]

    @property
    def holders(self) -> list[int]:
        """The first replica that has each part."""
        parts = self.part_of_replica
        return [parts.index(part) for part in range(self.grouping.num_groups * self.shard_over)]

    def to_parts(self, data: np.ndarray) -> np.ndarray:
        """Returns the parts that replicas have, each once and in C order.

        Args:
            data: the host's copy.
        """
        values = data.reshape(self.grouping.num_groups, *self.shape)
        if self._parts_are_values:
            return np.ascontiguousarray(values)
        pieces = [[value] if self.shard_over == 1 else self._shards(value) for value in values]
        return np.stack([_resized(part, self.shape_on_device) for own in pieces for part in own])

    def from_parts(self, parts: np.ndarray) -> np.ndarray:
        """Returns the host's copy.

        Args:
            parts: the parts that replicas have.
        """
        if self._parts_are_values:
            return parts.reshape(self.shape_on_host)
        values = parts.reshape(self.grouping.num_groups, self.shard_over, *self.shape_on_device)
        return np.stack([self._joined(own) for own in values]).reshape(self.shape_on_host)

    def is_on_device(self) -> np.ndarray:
        """Returns which elements of the host's copy the device has: entries may have no room."""
        return self.from_parts(self.to_parts(np.ones(self.shape_on_host, bool)))

    def of_replicas(self, rows: np.ndarray) -> np.ndarray:
        """Returns the value of each replica; for a shard, the value that it is a part of.

        Args:
            rows: the value of each replica, in replica order.
        """
        return np.stack([self._whole(rows, replica) for replica in range(len(rows))])

    def _shards(self, value: np.ndarray) -> np.ndarray:
        flat = value.reshape(-1)
        padded = np.zeros(self._shard_length * self.shard_over, flat.dtype)
        padded[: flat.size] = flat
        return padded.reshape(self.shard_over, -1)

    def _place(self, replica: int) -> int:
        """The number of the shard that a replica has; 0 if it has a whole value."""
        members = self.grouping.members(self.grouping.assignment[replica])
        return members.index(replica) % self.shard_over

    def _whole(self, rows: np.ndarray, replica: int) -> np.ndarray:
        """The value that a replica has, or that it has a shard of."""
        members = self.grouping.members(self.grouping.assignment[replica])
        first = members.index(replica) // self.shard_over * self.shard_over
        return self._joined(rows[members[first : first + self.shard_over]])

    def _joined(self, shards: np.ndarray) -> np.ndarray:
        """The value that consists of shards, or is the only one of them."""
        if self.shard_over == 1:
            return _resized(shards[0], self.shape)
        parts = [_resized(shard, (self._shard_length,)) for shard in shards]
        return _resized(np.concatenate(parts), self.shape)


def _resized(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the first elements in another shape, filled up with zeros."""
    count, flat = math.prod(shape), array.reshape(-1)
    if flat.size < count:
        flat = np.concatenate([flat, np.zeros(count - flat.size, flat.dtype)])
    return flat[:count].reshape(shape)


def check_retrieval_mode(mode: str | None) -> str:
    """Returns whose values come to the host.

    Args:
        mode: the mode from the user; None for the default.

    Raises:
        ValueError: If it is unknown.
    """
    if mode is None:
        return _MODES[0]
    if mode not in _MODES:
        raise ValueError(
            "Invalid retrieval_mode. Expected: 'one_per_group' or 'all_replicas'. Received: "
            f"{mode!r}"
        )
    return mode
