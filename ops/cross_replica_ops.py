"""Sums and means over replicas: the public module `ipu.cross_replica_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from tensorflow_ipu.ops import replica_arguments
from tensorflow_ipu.runtime import native


def cross_replica_sum(
    x: replica_arguments.TensorLike,
    replica_group_size: int | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Sums a tensor over replicas.

    Its gradient is the same sum of the gradients that the replicas pass in.

    Args:
        x: the tensor of this replica; numbers. `tf.IndexedSlices` are made dense.
        replica_group_size: how many replicas sum together: the first so many, the next so many,
            and so on. It has to divide the number of replicas. None or 0 for all replicas.
        name: name for the op.

    Returns:
        A tensor like `x`, equal on all replicas of a group. The bits are the same in each run:
        replicas are added in their order. float16 and bfloat16 are added in float32 and rounded
        once.

    Raises:
        TypeError: the tensor has another type, or the group size is not an int.
        ValueError: the group size is negative.
    """
    size = replica_arguments.group_size(replica_group_size, "replica_group_size")
    with tf.name_scope(name or "cross_replica_sum") as scope:
        tensor = replica_arguments.number_tensor(x, "cross_replica_sum")
        return native.ops().ipu_cross_replica_sum(tensor, replica_group_size=size, name=scope)


def cross_replica_mean(
    x: replica_arguments.TensorLike,
    replica_group_size: int | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Averages a tensor over replicas: the sum divided by the number of those that sum together.

    Args:
        x: see `cross_replica_sum`.
        replica_group_size: see `cross_replica_sum`.
        name: name for the op.

    Returns:
        A tensor like `x`. Integers are rounded towards zero. float16 and bfloat16 are added and
        divided in float32 and rounded once, so a mean does not overflow.

    Raises:
        TypeError: see `cross_replica_sum`.
        ValueError: see `cross_replica_sum`.
    """
    size = replica_arguments.group_size(replica_group_size, "replica_group_size")
    with tf.name_scope(name or "cross_replica_mean") as scope:
        tensor = replica_arguments.number_tensor(x, "cross_replica_mean")
        return native.ops().ipu_cross_replica_sum(
            tensor, replica_group_size=size, mean=True, name=scope
        )


def assume_equal_across_replicas(tensors: Any, inplace: bool = False) -> Any:
    """Promises that tensors are equal on all replicas.

    The compiler refuses conditions and loops with collectives inside whose predicate depends on
    the replica. It takes the results of this for equal. If they are not, and replicas really part
    ways, the program fails when it runs.

    Args:
        tensors: a tensor or a structure of them.
        inplace: whether they may share memory with the results. Results are the same.

    Returns:
        A structure like `tensors`, to be used in place of it.
    """
    del inplace  # tensors are values here, and share memory as long as nothing writes to it

    def marked(tensor: Any) -> tf.Tensor:
        return native.ops().ipu_assume_equal_across_replicas(tf.convert_to_tensor(tensor))

    with tf.name_scope("assume_equal_across_replicas"):
        return tf.nest.map_structure(marked, tensors)


@ops.RegisterGradient("IpuCrossReplicaSum")
def _sum_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    """Returns the gradient: each replica's tensor is in the results of its whole group."""
    reduce = cross_replica_mean if op.get_attr("mean") else cross_replica_sum
    return reduce(gradient, op.get_attr("replica_group_size"))


@ops.RegisterGradient("IpuAssumeEqualAcrossReplicas")
def _assume_equal_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    del op
    return gradient
