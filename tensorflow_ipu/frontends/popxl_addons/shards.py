"""Sharded tensors: functions shared by ops, optimizers and transforms."""

from __future__ import annotations

import math

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops


def chosen(x: popxl.Tensor, indices: popxl.Tensor) -> popxl.Tensor:
    """Returns one element of each row, and 0 where the index belongs to another shard.

    Args:
        x: the rows, `(n, size)`.
        indices: the position of the element in each row, `(n,)`; any integers.
    """
    positions = popxl.constant(np.arange(x.shape[1]), indices.dtype)
    is_chosen = ops.equal(indices.reshape((-1, 1)), positions)
    zeros = popxl.constant(0.0, x.dtype)
    return ops.sum(ops.where(is_chosen, x, zeros), 1)


def shards_of(
    shard: popxl.Tensor | popxl.TensorSpec, group: popxl.ReplicaGrouping | None = None
) -> int:
    """Returns over how many replicas a tensor is sharded.

    Args:
        shard: the part of a replica, or its shape and type.
        group: the replicas that share the tensor out among them; all by default.
    """
    size = (group or popxl.gir().replica_grouping()).group_size
    possible = [over for over in range(1, size + 1) if size % over == 0]
    whole, part = math.prod(shard.meta_shape), math.prod(shard.shape)
    return next((over for over in possible if -(-whole // over) == part), size)
