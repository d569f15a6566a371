"""All-to-all and all-gather between replicas: the public module `ipu.all_to_all_op`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from tensorflow_ipu.ops import replica_arguments
from tensorflow_ipu.runtime import native


def all_gather(x: Any, replication_factor: int, name: str | None = None) -> Any:
    """Gathers the tensors of all replicas on every replica.

    Args:
        x: the tensor of this replica, or a list or tuple of tensors.
        replication_factor: how many replicas exchange tensors: the first so many, the next so
            many, and so on. It has to divide the number of replicas.
        name: name for the op.

    Returns:
        A tensor of the shape `[replication_factor] + shape of x`, equal on all replicas of a
        group, with the tensor of the group's replica i in row i. For a list or tuple, a list of
        such tensors.

    Raises:
        TypeError: a tensor has a type that the device lacks, or the factor is not an int.
        ValueError: the factor is less than 1.
    """
    factor = replica_arguments.replica_count(replication_factor, "replication_factor")
    with tf.name_scope(name or "all_gather") as scope:
        if isinstance(x, (list, tuple)):
            return [_all_gather(tensor, factor) for tensor in x]
        return _all_gather(x, factor, scope)


def _all_gather(x: Any, factor: int, name: str | None = None) -> tf.Tensor:
    tensor = replica_arguments.any_tensor(x, "all_gather")
    return native.ops().ipu_all_gather(tensor, replication_factor=factor, name=name)


def all_to_all(
    x: Any,
    split_dimension: int,
    concat_dimension: int,
    replication_factor: int,
    name: str | None = None,
) -> tf.Tensor:
    """Splits the tensor of each replica and gives one part to every replica.

    Args:
        x: the tensor of this replica.
        split_dimension: dimension that it is split along, into as many parts as there are
            replicas. Replica r gets part r of all tensors.
        concat_dimension: dimension along which the parts are concatenated, in the order of the
            replicas that they come from.
        replication_factor: the number of replicas of the program.
        name: name for the op.

    Returns:
        A tensor with as many elements as `x`.

    Raises:
        TypeError: the tensor has a type that the device lacks, or another argument is not an int.
        ValueError: a dimension does not exist or cannot be split evenly, or the factor is less
            than 1.
    """
    factor = replica_arguments.replica_count(replication_factor, "replication_factor")
    with tf.name_scope(name or "all_to_all") as scope:
        tensor = replica_arguments.any_tensor(x, "all_to_all")
        _check_dimension(split_dimension, "split_dimension", tensor)
        _check_dimension(concat_dimension, "concat_dimension", tensor)
        _check_split(tensor, split_dimension, factor)
        return native.ops().ipu_all_to_all(
            tensor,
            split_dimension=split_dimension,
            concat_dimension=concat_dimension,
            replication_factor=factor,
            name=scope,
        )


def _check_dimension(dimension: Any, argument: str, tensor: tf.Tensor) -> None:
    if isinstance(dimension, bool) or not isinstance(dimension, (int, np.integer)):
        raise TypeError(f"{argument} must be an int. Received: {argument}={dimension!r}")
    rank = tensor.shape.rank
    if dimension < 0 or (rank is not None and dimension >= rank):
        raise ValueError(
            f"{argument} must be at least 0 and less than the rank of x. Received: "
            f"{argument}={dimension} and x of shape {tensor.shape}"
        )


def _check_split(tensor: tf.Tensor, dimension: int, factor: int) -> None:
    size = None if tensor.shape.rank is None else tensor.shape[dimension]
    if size is not None and size % factor:
        raise ValueError(
            f"all_to_all splits dimension {dimension} of x into {factor} equal parts, so its size "
            f"must be a multiple of {factor}. Received: x of shape {tensor.shape}"
        )


@ops.RegisterGradient("IpuAllGather")
def _all_gather_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of an all-gather: the sum of each replica's row over the group."""
    factor = op.get_attr("replication_factor")
    own = native.ops().ipu_reduce_scatter(tf.reshape(gradient, [-1]), replication_factor=factor)
    return tf.reshape(own, tf.shape(op.inputs[0]))


@ops.RegisterGradient("IpuAllToAll")
def _all_to_all_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    """Returns the gradient: each part goes back to the replica it came from."""
    return native.ops().ipu_all_to_all(
        gradient,
        split_dimension=op.get_attr("concat_dimension"),
        concat_dimension=op.get_attr("split_dimension"),
        replication_factor=op.get_attr("replication_factor"),
    )
