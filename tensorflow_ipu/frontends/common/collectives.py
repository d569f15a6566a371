"""Collectives of the replicas of a group, as TensorFlow ops."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops import all_to_all_op, cross_replica_ops, replication_ops

_NARROW = (tf.float16, tf.bfloat16)


def members(t: Any, stride: int, size: int) -> Any:
    """Gathers the tensors of all members of a group, in their order, along a new first axis.

    The device's collectives are between consecutive replicas. For a larger stride, the block of
    `stride * size` replicas gathers, and each replica selects the rows of its group.

    Args:
        t: the tensor of this replica.
        stride: distance between members.
        size: members of the group.
    """
    if size == 1:
        return t[tf.newaxis]
    rows = all_to_all_op.all_gather(t, stride * size)
    if stride == 1:
        return rows
    rows = tf.reshape(rows, [size, stride, *t.shape])
    return tf.gather(rows, replication_ops.replication_index() % stride, axis=1)


def position(stride: int, size: int) -> Any:
    """Returns the index of this replica in its group, as a scalar tensor.

    Args:
        stride: distance between members.
        size: members of the group.
    """
    if size == 1:
        return tf.constant(0)
    return replication_ops.replication_index() % (stride * size) // stride


def all_reduced(t: Any, op: str, stride: int, size: int) -> Any:
    """Reduces the tensors of a group.

    Args:
        t: the tensor of this replica.
        op: the name of the reduction.
        stride: distance between members.
        size: members of the group.
    """
    if size > 1 and stride == 1 and op in ("add", "mean", "mul"):
        reduce = (
            cross_replica_ops.cross_replica_sum
            if op == "add"
            else cross_replica_ops.cross_replica_mean
        )
        return reduce(t, size)
    if size == 1 and op != "square_add":
        return tf.identity(t)
    return reduced(members(t, stride, size), op)


def reduced(rows: Any, op: str) -> Any:
    """Reduces a tensor along its first axis; floats are rounded once.

    Args:
        rows: the tensor; one row for each member.
        op: the name of the reduction.
    """
    if op in ("min", "max"):
        return (tf.reduce_min if op == "min" else tf.reduce_max)(rows, axis=0)
    if op in ("and", "or"):
        reduce = tf.reduce_all if op == "and" else tf.reduce_any
        return tf.cast(reduce(tf.cast(rows, tf.bool), axis=0), rows.dtype)
    wide = tf.cast(rows, tf.float32) if rows.dtype in _NARROW else rows
    parts = tf.unstack(tf.square(wide) if op == "square_add" else wide)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    if op in ("mean", "mul"):
        total = replication_ops.divided(total, rows.shape[0])
    return tf.cast(total, rows.dtype)


def shards(t: Any, size: int) -> Any:
    """Splits the flattened tensor into one row for each member, padded with zeros.

    Args:
        t: the tensor.
        size: members of the group.
    """
    flat = tf.reshape(t, [-1])
    length = -(-flat.shape[0] // size)
    return tf.reshape(tf.pad(flat, [[0, length * size - flat.shape[0]]]), [size, length])
