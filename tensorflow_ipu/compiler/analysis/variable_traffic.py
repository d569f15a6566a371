"""Bytes that an op reads from and writes to variables."""

from __future__ import annotations

from functools import lru_cache

import tensorflow as tf

from tensorflow_ipu.compiler.ir.records import TensorRecord
from tensorflow_ipu.util import op_names

# Optimizer updates touch as many bytes of each variable as the gradient has, scatter updates as
# many as their operand. Suffixes of updates that do not read the old value.
_OVERWRITES = ("Update", "SliceAssign")
_UPDATE_INPUTS = ("grad", "delta", "updates", "value")


def bytes_of(op: tf.Operation) -> tuple[int | None, int | None]:
    """Returns the bytes of variables that an op reads and writes.

    Ops that only pass handles on (loops, calls) touch no variable themselves.

    Args:
        op: an op in a graph with static shapes.

    Returns:
        Bytes read and bytes written, each `None` when it depends on an unknown shape.
    """
    if op.type in op_names.READS:
        return num_bytes(op.outputs[0]), 0
    if op.type == op_names.ASSIGN:
        return 0, num_bytes(op.inputs[1])
    if op.type in op_names.ACCUMULATIONS:
        return (num_bytes(op.inputs[1]),) * 2
    if op_names.is_update(op.type):
        touched = _updated_bytes(op)
        return (0 if op.type.endswith(_OVERWRITES) else touched), touched
    return 0, 0


def num_bytes(tensor: tf.Tensor) -> int | None:
    """Returns the size of a tensor in bytes.

    Args:
        tensor: any tensor.

    Returns:
        The size; 0 for a handle, which stays where it is; `None` for a string and for a shape that
        is not static.
    """
    dtype = tensor.dtype
    if dtype is tf.resource or dtype is tf.variant:
        return 0
    count = tensor.shape.num_elements()
    return None if count is None or dtype is tf.string else int(count) * dtype.size


def record_bytes(tensor: TensorRecord) -> int | None:
    """Returns the bytes of a tensor that a listing describes."""
    if tensor.dtype in ("resource", "variant"):
        return 0
    if tensor.shape is None or tensor.dtype == "string":
        return None
    size = _element_bytes(tensor.dtype)
    for dimension in tensor.shape:
        if dimension is None:
            return None
        size *= dimension
    return size


@lru_cache(maxsize=64)
def _element_bytes(dtype: str) -> int:
    """Returns the bytes of one element of a type, by its name."""
    return int(tf.as_dtype(dtype).size)


def _updated_bytes(op: tf.Operation) -> int | None:
    """Returns the bytes of each variable of an update: weights and optimizer slots."""
    inputs = op.inputs
    names = [argument.name for argument in op.op_def.input_arg]
    update = next((name for name in _UPDATE_INPUTS if name in names), None)
    size = None if update is None else num_bytes(inputs[names.index(update)])
    return None if size is None else size * sum(t.dtype is tf.resource for t in inputs)
