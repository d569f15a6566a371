"""`HostLayout`: how the host's copy of a variable is divided among replicas."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping

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
        """Whether all replicas start with one value, and the host wants that of replica 0 only."""
        several = self.grouping.num_groups > 1 or self.shard_over > 1
        return not (several or self.returns_all_replicas)

    @property
    def returns_all_replicas(self) -> bool:
        """Whether reading the variable returns a value for each replica."""
        return self.retrieval_mode == ALL_REPLICAS and self.grouping.group_size > 1

    @property
    def _shard_length(self) -> int:
        return -(-math.prod(self.shape) // self.shard_over)

    def to_device(self, data: np.ndarray) -> np.ndarray:
        """Returns what each replica has, in the order of the replicas.

        Args:
            data: the host's copy.
        """
        values = data.reshape(self.grouping.num_groups, *self.shape)
        rows = []
        for replica, group in enumerate(self.grouping.assignment):
            value = values[group]
            row = value if self.shard_over == 1 else self._shards(value)[self._place(replica)]
            rows.append(_resized(row, self.shape_on_device))
        return np.stack(rows)

    def from_device(self, rows: np.ndarray) -> np.ndarray:
        """Returns the host's copy: what the first replicas of the groups have.

        Args:
            rows: what each replica has, in the order of the replicas.
        """
        firsts = [self.grouping.assignment.index(g) for g in range(self.grouping.num_groups)]
        return np.stack([self._whole(rows, first) for first in firsts]).reshape(self.shape_on_host)

    def is_on_device(self) -> np.ndarray:
        """Returns which elements of the host's copy the device has: entries may have no room."""
        return self.from_device(self.to_device(np.ones(self.shape_on_host, bool)))

    def of_replicas(self, rows: np.ndarray) -> np.ndarray:
        """Returns the value of each replica; for a shard, the value that it is a part of.

        Args:
            rows: what each replica has, in the order of the replicas.
        """
        return np.stack([self._whole(rows, replica) for replica in range(len(rows))])

    def _shards(self, value: np.ndarray) -> np.ndarray:
        flat = value.reshape(-1)
        padded = np.zeros(self._shard_length * self.shard_over, flat.dtype)
        padded[: flat.size] = flat
        return padded.reshape(self.shard_over, -1)

    def _place(self, replica: int) -> int:
        """The number of the shard that a replica has."""
        members = self.grouping.members(self.grouping.assignment[replica])
        return members.index(replica) % self.shard_over

    def _whole(self, rows: np.ndarray, replica: int) -> np.ndarray:
        """The value that a replica has, or that it has a shard of."""
        if self.shard_over == 1:
            return _resized(rows[replica], self.shape)
        members = self.grouping.members(self.grouping.assignment[replica])
        first = members.index(replica) // self.shard_over * self.shard_over
        shards = rows[members[first : first + self.shard_over]]
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
        mode: what the user says; None for the default.

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
