"""Index and number of replicas, and division by it: the public module `ipu.replication_ops`."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.framework import ops

from tensorflow_ipu.runtime import native

__all__ = [
    "ipu_replication_normalise",
    "replication_factor",
    "replication_index",
]

ops.NotDifferentiable("IpuReplicationIndex")
ops.NotDifferentiable("IpuReplicationFactor")


def replication_index(name: str | None = None) -> tf.Tensor:
    """Returns the index of the replica that runs the op.

    Args:
        name: name for the op.

    Returns:
        An int32 scalar, from 0 to the number of replicas - 1. Outside a program it is 0.
    """
    return native.ops().ipu_replication_index(name=name)


def replication_factor(name: str | None = None) -> tf.Tensor:
    """Returns the number of replicas that run the program.

    It is known only when the program is compiled, so it is a tensor.

    Args:
        name: name for the op.

    Returns:
        An int32 scalar. Outside a program it is 1.
    """
    return native.ops().ipu_replication_factor(name=name)


def ipu_replication_normalise(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Divides a tensor by the number of replicas.

    Args:
        x: the tensor.
        name: name for the op.

    Returns:
        A tensor like `x`. Integers are rounded towards zero.
    """
    with tf.name_scope(name or "ipu_replication_normalise"):
        return divided(x, replication_factor())


def divided(x: tf.Tensor, count: tf.Tensor | int) -> tf.Tensor:
    """Returns a tensor divided by a number of replicas; integers are rounded towards zero."""
    x = tf.convert_to_tensor(x)
    divisor = tf.cast(count, x.dtype)
    return tf.truncatediv(x, divisor) if x.dtype.is_integer else x / divisor
