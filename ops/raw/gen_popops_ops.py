"""Raw ops below collectives, slices and statistics: the public module `gen_popops_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops import all_to_all_op, cross_replica_ops, reduce_scatter_op, statistics_ops
from tensorflow_ipu.ops.raw import missing_in

__all__ = [
    "ipu_all_gather",
    "ipu_all_to_all",
    "ipu_assume_equal_across_replicas",
    "ipu_cross_replica_sum",
    "ipu_histogram",
    "ipu_reduce_scatter",
]

__getattr__ = missing_in(
    "gen_popops_ops",
    __all__,
    "ipu.cross_replica_ops, ipu.all_to_all_op, ipu.reduce_scatter_op, ipu.embedding_ops, "
    "ipu.slicing_ops, ipu.statistics_ops and ipu.math_ops",
)


def ipu_cross_replica_sum(
    input: Any,  # noqa: A002
    replica_group_size: int | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Sums a tensor over replicas: see `cross_replica_ops.cross_replica_sum`.

    Args:
        input: the tensor.
        replica_group_size: how many replicas sum together; all for None and 0.
        name: name for the op.
    """
    return cross_replica_ops.cross_replica_sum(input, replica_group_size or None, name)


def ipu_assume_equal_across_replicas(input: Any, name: str | None = None) -> Any:  # noqa: A002
    """Marks a tensor as equal on all replicas: see `cross_replica_ops`.

    Args:
        input: the tensor.
        name: has no effect.
    """
    del name
    return cross_replica_ops.assume_equal_across_replicas(input)


def ipu_all_gather(input: Any, replication_factor: int, name: str | None = None) -> Any:  # noqa: A002
    """Gathers the tensors of all replicas: see `all_to_all_op.all_gather`.

    Args:
        input: the tensor, or a list of tensors.
        replication_factor: how many replicas exchange tensors.
        name: name for the op.
    """
    return all_to_all_op.all_gather(input, replication_factor, name)


def ipu_all_to_all(
    input: Any,  # noqa: A002
    split_dimension: int,
    concat_dimension: int,
    number_of_replicas: int,
    name: str | None = None,
) -> tf.Tensor:
    """Exchanges parts of tensors between all replicas: see `all_to_all_op.all_to_all`.

    Args:
        input: the tensor.
        split_dimension: the dimension that it is split along.
        concat_dimension: the dimension that parts are joined along.
        number_of_replicas: how many replicas there are.
        name: name for the op.
    """
    return all_to_all_op.all_to_all(
        input, split_dimension, concat_dimension, number_of_replicas, name
    )


def ipu_reduce_scatter(
    input: Any,  # noqa: A002
    replication_factor: int,
    op: str = "COLLECTIVE_OP_ADD",
    name: str | None = None,
) -> Any:
    """Reduces over replicas and scatters the result: see `reduce_scatter_op.reduce_scatter`.

    Args:
        input: the tensor, or a list of tensors.
        replication_factor: how many replicas reduce together.
        op: the reduction.
        name: name for the op.
    """
    return reduce_scatter_op.reduce_scatter(input, replication_factor, op, name)


def ipu_histogram(
    input: Any,  # noqa: A002
    levels: Any,
    absolute_of_input: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Counts elements between levels: see `statistics_ops.histogram`.

    Args:
        input: the tensor.
        levels: the levels.
        absolute_of_input: whether signs are dropped.
        name: has no effect.
    """
    del name
    return statistics_ops.histogram(input, levels, absolute_of_input)
