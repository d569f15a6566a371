"""Horovod's collectives between processes, on the host."""

from __future__ import annotations

import enum
from typing import Any

from tensorflow.python.framework import indexed_slices, ops
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu.distributed import host_collective_ops, transport
from tensorflow_ipu.distributed.horovod import processes

__all__ = ["Adasum", "Average", "ReduceOp", "Sum", "allgather", "allreduce", "broadcast"]


class ReduceOp(enum.IntEnum):
    """How `allreduce` combines the tensors of all processes.

    * `Average`: their sum, divided by the number of processes.
    * `Sum`: their sum.
    * `Adasum`: not supported.
    """

    Average = 0
    Sum = 1
    Adasum = 2


Average, Sum, Adasum = ReduceOp


def allreduce(tensor: Any, op: ReduceOp | None = None) -> Any:
    """Reduces a tensor over all processes, on the CPU.

    Args:
        tensor: a tensor, variable or `tf.IndexedSlices`, of the same shape in all processes. Of
            slices the values and indices of all processes are joined.
        op: `Average`, the default, or `Sum`.

    Returns:
        The tensor, or slices.

    Raises:
        NotImplementedError: If `op` is `Adasum`.
        ValueError: If `op` is another, or `init` has not been called.
    """
    op = _checked(Average if op is None else op)
    if isinstance(tensor, indexed_slices.IndexedSlices):
        values = _reduced(transport.joined(tensor.values), op)
        indices = transport.joined(tensor.indices)
        return indexed_slices.IndexedSlices(values, indices, tensor.dense_shape)
    return _reduced(transport.total(_converted(tensor)), op)


def allgather(tensor: Any, name: str | None = None) -> tensor_lib.Tensor:
    """Joins the tensors of all processes along dimension 0, in the order of their ranks.

    Args:
        tensor: a tensor of rank 1 or more; only its first dimension may differ.
        name: name that the processes find each other by; made from the tensor if None.

    Returns:
        The tensors of all processes.

    Raises:
        ValueError: If the tensor is a scalar, or `init` has not been called.
    """
    processes.initialized()
    value = _converted(tensor)
    if value.shape.rank == 0:
        raise ValueError(
            "allgather joins tensors along dimension 0, so it takes a tensor of rank 1 or more. "
            f"Received: {value}"
        )
    return transport.joined(value, name)


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> tensor_lib.Tensor:
    """Returns the tensor of one process.

    Args:
        tensor: a tensor of the same type and shape in all processes.
        root_rank: which process.
        name: name that the processes find each other by; made from the tensor if None.

    Returns:
        The tensor of that process.

    Raises:
        ValueError: If there is no such process, or `init` has not been called.
    """
    size = processes.size()
    if not 0 <= root_rank < size:
        raise ValueError(
            f"root_rank must be a rank from 0 to {size - 1}. Received: root_rank={root_rank!r}"
        )
    return transport.from_instance(_converted(tensor), root_rank, name)


def _converted(tensor: Any) -> tensor_lib.Tensor:
    with transport.on_host():
        return ops.convert_to_tensor(tensor)


def _checked(op: Any) -> ReduceOp:
    processes.initialized()
    if op not in tuple(ReduceOp):
        raise ValueError(f"op must be Average or Sum of ipu.horovod, or None. Received: op={op!r}")
    if op == Adasum:
        raise NotImplementedError(
            "The Adasum reduction is not supported. Use Average, the default, or Sum."
        )
    return ReduceOp(op)


def _reduced(total: tensor_lib.Tensor, op: ReduceOp) -> tensor_lib.Tensor:
    size = processes.size()
    if op == Sum or size == 1:
        return total
    return host_collective_ops.divided(total, size)
