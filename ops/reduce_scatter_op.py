"""Reductions over replicas, each with a slice: the public module `ipu.reduce_scatter_op`."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf
from tensorflow.python.framework import ops

from tensorflow_ipu.ops import all_to_all_op, replica_arguments, replication_ops
from tensorflow_ipu.runtime import native

_PREFIX = "COLLECTIVE_OP_"
_LOGICAL = (f"{_PREFIX}LOGICAL_AND", f"{_PREFIX}LOGICAL_OR")
_OPS = tuple(f"{_PREFIX}{op}" for op in ("ADD", "MUL", "MIN", "MAX")) + (
    f"{_PREFIX}MEAN",
    *_LOGICAL,
    f"{_PREFIX}SQUARE_ADD",
    f"{_PREFIX}LOCAL",
)
# Reductions of the rows of a matrix that TensorFlow knows the gradient of.
_REDUCTIONS: dict[str, Callable[..., tf.Tensor]] = {
    f"{_PREFIX}MUL": tf.reduce_prod,
    f"{_PREFIX}MIN": tf.reduce_min,
    f"{_PREFIX}MAX": tf.reduce_max,
}


def reduce_scatter(
    x: Any, replication_factor: int, op: str = "COLLECTIVE_OP_ADD", name: str | None = None
) -> Any:
    """Reduces tensors over replicas and gives each replica a slice of the result.

    The tensor counts as a vector of n elements, padded with zeros to a multiple of the factor R.
    The r-th replica of a group gets elements `r * k` to `(r + 1) * k` of the reduction, where k is
    n / R rounded up.

    Args:
        x: the tensor of this replica, or a list or tuple of tensors.
        replication_factor: how many replicas reduce together: the first so many, the next so many,
            and so on. It has to divide the number of replicas.
        op: one of `COLLECTIVE_OP_ADD`, `COLLECTIVE_OP_MUL`, `COLLECTIVE_OP_MIN`,
            `COLLECTIVE_OP_MAX`; `COLLECTIVE_OP_MEAN`, which rounds integers towards zero;
            `COLLECTIVE_OP_LOGICAL_AND` and `COLLECTIVE_OP_LOGICAL_OR`, of booleans;
            `COLLECTIVE_OP_SQUARE_ADD`, which adds squares; `COLLECTIVE_OP_LOCAL`, which reduces
            nothing: each replica gets the slice of its own tensor.
        name: name for the op.

    Returns:
        A vector of k elements. For a list or tuple, a list of vectors.

    Raises:
        TypeError: the op cannot reduce tensors of that type, or the factor is not an int.
        ValueError: there is no such op, or the factor is less than 1.
    """
    factor = replica_arguments.replica_count(replication_factor, "replication_factor")
    if op not in _OPS:
        raise ValueError(f"op must be one of {', '.join(_OPS)}. Received: op={op!r}")
    with tf.name_scope(name or "reduce_scatter") as scope:
        if isinstance(x, (list, tuple)):
            return [_reduce_scatter(tensor, factor, op) for tensor in x]
        return _reduce_scatter(x, factor, op, scope)


def _reduce_scatter(x: Any, factor: int, op: str, name: str | None = None) -> tf.Tensor:
    operation = f"reduce_scatter with {op}"
    if op in _LOGICAL:
        tensor = replica_arguments.boolean_tensor(x, operation)
    elif op == f"{_PREFIX}LOCAL":
        tensor = replica_arguments.any_tensor(x, operation)
    else:
        tensor = replica_arguments.number_tensor(x, operation)
    vector = tensor if tensor.shape.rank == 1 else tf.reshape(tensor, [-1])
    return native.ops().ipu_reduce_scatter(vector, replication_factor=factor, op=op, name=name)


@ops.RegisterGradient("IpuReduceScatter")
def _reduce_scatter_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor | None:
    """Returns the gradient: each element of the reduction is on one replica of the group."""
    x, kind = op.inputs[0], op.get_attr("op").decode()
    factor = op.get_attr("replication_factor")
    if kind in _LOGICAL:
        return None
    if kind == f"{_PREFIX}LOCAL":
        return _own_slice(gradient, factor, tf.shape(x))
    whole = tf.reshape(all_to_all_op.all_gather(gradient, factor), [-1])
    whole = tf.reshape(whole[: tf.size(x)], tf.shape(x))  # without the padding
    if kind == f"{_PREFIX}ADD":
        return whole
    if kind == f"{_PREFIX}MEAN":
        return replication_ops.divided(whole, factor)
    if kind == f"{_PREFIX}SQUARE_ADD":
        return 2 * x * whole
    return _row_gradient(_REDUCTIONS[kind], all_to_all_op.all_gather(x, factor), whole, factor)


def _own_slice(gradient: tf.Tensor, factor: int, shape: tf.Tensor) -> tf.Tensor:
    """Returns a vector of zeros with `gradient` at the place of this replica's slice."""
    own = tf.equal(tf.range(factor), replication_ops.replication_index() % factor)
    rows = tf.where(own[:, tf.newaxis], gradient[tf.newaxis], tf.zeros([], gradient.dtype))
    return tf.reshape(tf.reshape(rows, [-1])[: shape[0]], shape)


def _row_gradient(
    reduction: Callable[..., tf.Tensor], rows: tf.Tensor, gradient: tf.Tensor, factor: int
) -> tf.Tensor:
    """Returns TensorFlow's gradient of a reduction of rows, for the row of this replica."""
    with tf.GradientTape() as tape:
        tape.watch(rows)
        reduced = reduction(rows, axis=0)
    gradients = tape.gradient(reduced, rows, gradient)
    return gradients[replication_ops.replication_index() % factor]
