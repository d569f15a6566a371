"""Collectives of instances on the host: `ipu.distributed.host_collective_ops`.

Each function is an operation on the CPU, eager or in a graph, which all instances have to run. In
a graph instances match the operations by the name of the tensor, so their order may differ. In
eager mode, where tensors have no names, all instances run them in the same order. With one instance
nothing is exchanged.
"""

from __future__ import annotations

from typing import Any

from tensorflow.python.distribute.reduce_util import ReduceOp
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, math_ops

from tensorflow_ipu.distributed import transport

__all__ = ["allgather", "allreduce", "broadcast"]

_NUMBERS = frozenset(
    (dtypes.float16, dtypes.float32)
    + (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
    + (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
)


def allgather(value: Any, tensor_name: str | None = None) -> tensor_lib.Tensor:
    """Returns the values of all instances.

    Args:
        value: a tensor of the same shape in all instances: integers, float16 or float32.
        tensor_name: name that the instances match the tensor by; by default the tensor's.

    Returns:
        A tensor with one dimension more, the first: the instances, in order.

    Raises:
        TypeError: If the type is another.
        tf.errors.UnknownError: When it runs, in all instances, if their types or shapes differ.
    """
    tensor = _checked("allgather", value)
    with transport.on_host():
        name = tensor_name or transport.name_of(tensor)
        return transport.joined(array_ops.expand_dims(tensor, 0), name)


def allreduce(
    value: Any, reduce_op: ReduceOp | str, tensor_name: str | None = None
) -> tensor_lib.Tensor:
    """Returns the sum, or the mean, of the values of all instances.

    Args:
        value: a tensor of the same shape in all instances: integers, float16 or float32.
        reduce_op: `tf.distribute.ReduceOp.SUM` or `MEAN`. The mean of integers is rounded down.
        tensor_name: name that the instances match the tensor by; by default the tensor's.

    Returns:
        A tensor of the same shape and type.

    Raises:
        TypeError: If the type is another.
        tf.errors.UnknownError: When it runs, in all instances, if their types or shapes differ.
        ValueError: If `reduce_op` is another.
    """
    if reduce_op not in (ReduceOp.SUM, ReduceOp.MEAN, "SUM", "MEAN"):
        raise ValueError(
            f"Unsupported reduce op: {reduce_op}. Instances reduce with "
            "tf.distribute.ReduceOp.SUM and MEAN."
        )
    total = transport.total(_checked("allreduce", value), tensor_name)
    if reduce_op in (ReduceOp.SUM, "SUM"):
        return total
    return divided(total, transport.count())


def broadcast(value: Any, root_rank: int = 0, tensor_name: str | None = None) -> tensor_lib.Tensor:
    """Returns the value of instance 0.

    Args:
        value: a tensor of the same shape in all instances: integers, float16, float32 or bool.
        root_rank: index of the instance; it has to be 0.
        tensor_name: name that the instances match the tensor by; by default the tensor's.

    Returns:
        A tensor of the same shape and type.

    Raises:
        TypeError: If the type is another.
        tf.errors.UnknownError: When it runs, in all instances, if their types or shapes differ.
        ValueError: If `root_rank` is another.
    """
    if root_rank != 0:
        raise ValueError(f"Values come from instance 0. Received: root_rank={root_rank!r}")
    tensor = _checked("broadcast", value, dtypes.bool)
    return transport.from_instance(tensor, root_rank, tensor_name)


def divided(total: tensor_lib.Tensor, count: int) -> tensor_lib.Tensor:
    """Returns a tensor divided by a number, rounded down for integers.

    Args:
        total: the tensor.
        count: the number.
    """
    with transport.on_host():
        result: tensor_lib.Tensor = (
            math_ops.floordiv(total, count)
            if total.dtype.is_integer
            else math_ops.divide(total, math_ops.cast(count, total.dtype))
        )
        return result


def _checked(function: str, value: Any, *more: dtypes.DType) -> tensor_lib.Tensor:
    with transport.on_host():
        tensor = ops.convert_to_tensor(value)
    if tensor.dtype.base_dtype not in {*_NUMBERS, *more}:
        raise TypeError(
            f"{function} takes integers, float16{', float32 and bool' if more else ' and float32'}."
            f" Received a tensor of the type {tensor.dtype.name}: cast it with tf.cast"
        )
    return tensor
