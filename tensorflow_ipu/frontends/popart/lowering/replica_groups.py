"""`ReplicaVariables`: variables with one value for each group of replicas.

Such a variable has a row for each group. A replica reads and writes the row of its group, and at
the end of a step all replicas get the rows of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common.replica_groups import ReplicaGrouping
from tensorflow_ipu.frontends.popart.lowering.marks import PLAIN, ModelPlacement
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
from tensorflow_ipu.ops.replication_ops import replication_index


class ReplicaVariables:
    """The variables of a program, as one replica sees them."""

    def __init__(
        self,
        variables: Mapping[str, tf.Variable],
        groupings: Mapping[str, ReplicaGrouping],
        schedule: ModelPlacement = PLAIN,
    ) -> None:
        """Takes the variables.

        Args:
            variables: the variables by id.
            groupings: the groups of those that have several, by id.
            schedule: which memory they are in.
        """
        self._variables = variables
        self._groupings = groupings
        self._schedule = schedule

    def __repr__(self) -> str:
        return f"ReplicaVariables[{len(self._variables)}, {len(self._groupings)} in groups]"

    def read(self, name: str) -> tf.Tensor:
        """Returns the value of a variable on this replica.

        Args:
            name: its id.
        """
        with self._schedule.of_variable(name):
            value = self._variables[name].read_value()
        if name not in self._groupings:
            return value
        return tf.gather(value, self._row(self._groupings[name]))

    def assign(self, name: str, value: Any) -> tf.Operation:
        """Writes the value of a variable on this replica, or in its group.

        Args:
            name: its id.
            value: the value.

        Returns:
            The operation.
        """
        variable = self._variables[name]
        if name in self._groupings:
            grouping = self._groupings[name]
            before = variable.read_value()
            value = tf.where(self._mask(grouping, before), value[tf.newaxis], before)
        with self._schedule.of_variable(name):
            return variable.assign(value, read_value=False)

    def add(self, name: str, value: Any) -> tf.Operation:
        """Adds to the value of a variable on this replica.

        Args:
            name: its id.
            value: the summand.

        Returns:
            The operation.
        """
        if name in self._groupings:
            return self.assign(name, self.read(name) + value)
        with self._schedule.of_variable(name):
            return self._variables[name].assign_add(value, read_value=False)

    def sum(self, name: str, value: Any, replicas: int) -> Any:
        """Returns the sum of a value over the replicas that share a variable.

        Args:
            name: the variable.
            value: the value of this replica.
            replicas: number of replicas.
        """
        grouping = self._groupings.get(name) or ReplicaGrouping(replicas)
        if grouping.groupSize == 1:
            return value
        if grouping.stride == 1:
            size = None if grouping.groupSize == replicas else grouping.groupSize
            return cross_replica_sum(value, size)
        # Groups at a distance: each group has a row of one sum of all replicas.
        rows = tf.zeros([_count(grouping), *value.shape], value.dtype)
        rows = tf.where(self._mask(grouping, rows), value[tf.newaxis], rows)
        return tf.gather(cross_replica_sum(rows), self._row(grouping))

    def share(self) -> list[tf.Operation]:
        """Gives all replicas the rows of all groups.

        Returns:
            The operations.
        """
        done = []
        for name, grouping in self._groupings.items():
            variable = self._variables[name]
            rows = variable.read_value()
            first = tf.constant([members[0] for members in grouping.groups()])
            is_first = tf.equal(tf.gather(first, self._row(grouping)), replication_index())
            own = tf.logical_and(self._mask(grouping, rows), is_first)
            wide = tf.cast(rows, tf.float32) if rows.dtype == tf.float16 else rows
            sent = cross_replica_sum(tf.where(own, wide, tf.zeros_like(wide)))
            done.append(variable.assign(tf.cast(sent, rows.dtype), read_value=False))
        return done

    def _row(self, grouping: ReplicaGrouping) -> Any:
        """Returns the number of this replica's group."""
        groups = [grouping.group_of(replica) for replica in range(grouping.numReplicas)]
        return tf.gather(tf.constant(groups), replication_index())

    def _mask(self, grouping: ReplicaGrouping, rows: Any) -> Any:
        """Returns the mask of the rows that belong to this replica's group."""
        numbers = tf.equal(tf.range(_count(grouping)), self._row(grouping))
        return tf.reshape(numbers, [-1] + [1] * (rows.shape.rank - 1))


def _count(grouping: ReplicaGrouping) -> int:
    return grouping.numReplicas // grouping.groupSize
