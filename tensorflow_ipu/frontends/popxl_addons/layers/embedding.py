"""Rows of a table by their indices; the table may be spread over groups of replicas."""

from __future__ import annotations

import math

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl_addons import initial_values
from tensorflow_ipu.frontends.popxl_addons.initial_values import FromTorch
from tensorflow_ipu.frontends.popxl_addons.module import Module

__all__ = ["MULTISLICE_MAGIC_NUMBER", "Embedding"]

# The number of rows of a shard is a multiple of this.
MULTISLICE_MAGIC_NUMBER = 16


class Embedding(FromTorch, Module):
    """A table of vectors; with several groups of replicas each group has a part of the rows."""

    def __init__(
        self,
        dtype: popxl.dtype,
        vocab_size: int,
        hidden_size: int,
        axis: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        """Makes the layer.

        Args:
            dtype: type of the table.
            vocab_size: number of rows, over all shards.
            hidden_size: size of a vector.
            axis: the axis that indices count along.
            replica_grouping: the groups of replicas that have a part each; one by default.
        """
        super().__init__()
        self.dtype = dtype
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.axis = axis
        self.replica_grouping = replica_grouping

    @property
    def n_shards(self) -> int:
        """The number of parts of the table."""
        return 1 if self.replica_grouping is None else self.replica_grouping.num_groups

    def build(self, indices: popxl.Tensor) -> popxl.Tensor:
        """Returns the vectors of indices, and zeros for indices of other parts of the table.

        Args:
            indices: the indices, integers; with several parts, less those in `get_offsets`.
        """
        rows = self.get_vocab_shard_size(self.vocab_size, self.n_shards)
        weight = self.add_variable_input(
            "weight",
            initial_values.truncated_normal(rows, self.hidden_size),
            self.dtype,
            replica_grouping=self.replica_grouping,
        )
        return ops.gather(weight, indices, self.axis, zero_OOR=self.n_shards > 1)

    @staticmethod
    def _arranged(weight: np.ndarray, variable: popxl.Variable) -> np.ndarray:
        # The rows that fill up the last parts of the table are zeros.
        shape = variable.shape_on_host
        rows = np.zeros((math.prod(shape[:-1]), shape[-1]), weight.dtype)
        if weight.shape[1:] != rows.shape[1:] or len(weight) > len(rows):
            raise ValueError(
                f"The table of PyTorch must have at most {len(rows)} rows of {shape[-1]} elements. "
                f"Received: {weight.shape}"
            )
        rows[: len(weight)] = weight
        return rows.reshape(shape)

    @staticmethod
    def get_vocab_shard_size(vocab_size: int, n_shards: int) -> int:
        """Returns the number of rows of each part.

        Args:
            vocab_size: number of rows of the table.
            n_shards: number of parts.
        """
        rows = -(-vocab_size // n_shards)
        return -(-rows // MULTISLICE_MAGIC_NUMBER) * MULTISLICE_MAGIC_NUMBER

    @classmethod
    def get_offsets(cls, vocab_size: int, n_shards: int) -> np.ndarray:
        """Returns the index of the first row of each part, int32: to be subtracted from indices.

        Args:
            vocab_size: number of rows of the table.
            n_shards: number of parts.
        """
        rows = cls.get_vocab_shard_size(vocab_size, n_shards)
        return np.arange(n_shards, dtype=np.int32) * rows
