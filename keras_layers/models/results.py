"""Collects what replicas sent in several steps, without rows of padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def joined(value: np.ndarray, rows: np.ndarray | None, full: int) -> np.ndarray:
    """Joins steps, replicas and batches of an output of a model.

    Args:
        value: the output, `[steps, replicas, ...]`.
        rows: real rows of each batch, `[steps, replicas]`; None if all are.
        full: rows of a batch with padding.

    Returns:
        The output for all real rows, in the order of the data.

    Raises:
        ValueError: If some rows of a batch are padding, and the first dimension of the output is
            not that of the rows.
    """
    real = value if rows is None else value[rows > 0]
    shape = value.shape[2:]
    whole = real.reshape(-1, *shape[1:])
    if rows is None or (rows[rows > 0] == full).all():
        return whole
    counts = rows[rows > 0]
    if shape[:1] != (full,):
        raise ValueError(
            f"The data have a partial batch of {counts.min()} instead of {full} rows, and an "
            f"output of the model has the shape {shape}, so that what belongs to the padding of "
            "that batch cannot be dropped from it. Return outputs whose first dimension is that of "
            "the rows, or use data whose number is a multiple of the batch size."
        )
    return whole[(np.arange(full) < counts[:, np.newaxis]).ravel()]


class ReplicaLogs:
    """The logs of replicas, each as of the last step in which it had data."""

    def __init__(self, number: int) -> None:
        """Begins an epoch.

        Args:
            number: number of replicas.
        """
        self._logs: list[Any] = [None] * number
        self._rows = np.zeros(number, np.int64)

    def add(self, replica: int, logs: Any, rows: int) -> None:
        """Takes the logs of a replica.

        Args:
            replica: its index.
            logs: what it has sent after a step.
            rows: real rows that it has seen since the last call.
        """
        self._logs[replica] = logs
        self._rows[replica] += rows

    def add_execution(self, logs: Any, rows: np.ndarray) -> None:
        """Takes the logs of an execution.

        Args:
            logs: values `[n, replicas, ...]`: of each step, or at the end of as many steps each.
            rows: real rows of each batch, `[steps, replicas]`.
        """
        values = tf.nest.flatten(logs)
        rows = rows.reshape(len(values[0]), -1, rows.shape[1])
        for replica in range(rows.shape[2]):
            real = (rows[:, :, replica] > 0).sum(1)
            if real.any():
                last = np.flatnonzero(real)[-1]
                now = [value[last, replica] for value in values]
                self.add(replica, tf.nest.pack_sequence_as(logs, now), rows[:, :, replica].sum())

    def latest(self) -> tuple[list[Any], np.ndarray]:
        """Returns the logs of the replicas that have had data, and how many rows each has seen."""
        seen = [index for index, logs in enumerate(self._logs) if logs is not None]
        return [self._logs[index] for index in seen], self._rows[seen]
