"""Variables in remote buffers, whole or sharded over replicas."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensorflow_ipu.frontends.popxl import context, dtypes
from tensorflow_ipu.frontends.popxl.ops.host import remote_load, remote_store
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer, remote_buffer
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.tensor import HostTensor, Tensor, Variable, variable
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext


def remote_variable(
    data: HostTensor | float | int,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: dtypes.DTypeLike | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Makes a variable whose value on the device is an entry of a remote buffer.

    Ops do not take it: programs load and store the entry.

    Args:
        data: the initial value. Its elements fill the entry in order. Where it has more or fewer,
            those that fit are there.
        remote_buffer: the buffer.
        offset: the number of the entry.
        dtype: type of the elements; that of the data by default.
        name: its name.
        downcast: whether data of 64 bits becomes data of 32 bits.
        replica_grouping: which replicas have the same value; all by default.
        retrieval_mode: whose values come to the host: "one_per_group" or "all_replicas".
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN.

    Raises:
        ValueError: If the value has another type than an entry, there is no such entry, or as
            `variable` does.
    """
    made = variable(
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
    )
    _check_type(made, remote_buffer)
    made.entry = (remote_buffer, remote_buffer.check_offset(offset))
    return made


def remote_replica_sharded_variable(
    data: HostTensor | float | int,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: dtypes.DTypeLike | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Makes a variable of which each replica has a shard, in an entry of a remote buffer.

    Args:
        data: the initial value, whole.
        remote_buffer: the buffer: its entries are shards.
        offset: the number of the entry.
        dtype: type of the elements; that of the data by default.
        name: its name.
        downcast: whether data of 64 bits becomes data of 32 bits.
        replica_grouping: which replicas have the same value; all by default.
        retrieval_mode: whose values come to the host: "one_per_group" or "all_replicas".
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN.

    Raises:
        ValueError: If there is one replica only, the buffer is for shards of another tensor, or as
            `remote_variable` does.
    """
    replicas = context.get_ir().replication_factor
    if replicas <= 1:
        raise ValueError(
            "To shard a variable over replicas, the replication factor must be greater than 1. It "
            f"is {replicas}."
        )
    made = variable(
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
    )
    if remote_buffer.meta_shape not in ((), made.shape):
        raise ValueError(
            f"The meta_shape has already been set to {remote_buffer.meta_shape} for "
            f"{remote_buffer!r}, and the variable has the shape {made.shape}."
        )
    _check_type(made, remote_buffer)
    remote_buffer.meta_shape = made.shape
    made.shard_over(_shards_for(made, remote_buffer))
    made.entry = (remote_buffer, remote_buffer.check_offset(offset))
    return made


def _shards_for(made: Variable, buffer: RemoteBuffer) -> int:
    """Returns over how many replicas a variable is sharded whose shards are entries of a buffer.

    As many as the buffer was made for; else as many that a shard fills an entry, if there is such
    a number; else all of a group.
    """
    size, length = made.replica_grouping.group_size, buffer.spec.nelms
    if buffer.shard_over is not None and size % buffer.shard_over == 0:
        return buffer.shard_over
    counts = (n for n in range(size, 0, -1) if size % n == 0)
    return next((n for n in counts if -(-made.nelms // n) == length), size)


def _check_type(made: Variable, buffer: RemoteBuffer) -> None:
    """Refuses a variable of another type than the entries of a buffer."""
    if buffer.tensor_dtype is not made.dtype:
        raise ValueError(
            f"Tensor {made.id} does not match buffer. Expected, for {buffer!r}: "
            f"{buffer.tensor_dtype}. Received: {made.dtype}."
        )


def replica_sharded_buffer(
    shape: Iterable[int],
    dtype: dtypes.DTypeLike,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    entries: int = 1,
) -> RemoteBuffer:
    """Makes a remote buffer for shards of tensors.

    Args:
        shape: shape of the tensors; with the dimension for groups, if there are several.
        dtype: type of the elements.
        replica_grouping: which replicas have the same value; all by default.
        shard_over: over how many of them a tensor is sharded; all of a group by default.
        entries: how many entries there are.

    Raises:
        ValueError: If a group cannot be divided so.
    """
    grouping = replica_grouping or context.get_ir().replica_grouping()
    shape = tuple(shape)
    whole = shape[1:] if grouping.num_groups > 1 else shape
    shard_over = _checked(shard_over, grouping.group_size)
    buffer = remote_buffer((-(-math.prod(whole) // shard_over),), dtype, entries)
    buffer.meta_shape = whole
    buffer.shard_over = shard_over
    return buffer


def _checked(shard_over: int | None, size: int) -> int:
    """Returns over how many replicas of a group tensors are sharded."""
    if shard_over is None:
        return size
    if not 1 <= shard_over <= size:
        raise ValueError(
            f"shard_over must be less than or equal to the group size, {size}, and at least 1. "
            f"Received: {shard_over}"
        )
    if size % shard_over:
        raise ValueError(
            f"The group size, {size}, must be divisible by shard_over. Received: {shard_over}"
        )
    return shard_over


def replica_sharded_variable(
    data: HostTensor | float | int,
    dtype: dtypes.DTypeLike | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    retrieval_mode: str | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> tuple[Variable, Tensor]:
    """Makes a variable of which each replica has a shard on its IPU.

    Args:
        data: the initial value, whole.
        dtype: type of the elements; that of the data by default.
        name: its name.
        downcast: whether data of 64 bits becomes data of 32 bits.
        replica_grouping: which replicas have the same value; all by default.
        shard_over: over how many of them it is sharded; all of a group by default.
        retrieval_mode: whose values come to the host: "one_per_group" or "all_replicas".
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN.

    Returns:
        The variable, and the shard: what ops do to it is there in the next run, and comes to the
        host with the variable.

    Raises:
        ValueError: As `remote_replica_sharded_variable` and `replica_sharded_buffer` do.
    """
    made = variable(
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
    )
    if made.ir.replication_factor <= 1:
        raise ValueError(
            "To shard a variable over replicas, the replication factor must be greater than 1."
        )
    grouping = made.replica_grouping
    buffer = replica_sharded_buffer(made.shape_on_host, made.dtype, grouping, shard_over)
    made.shard_over(_checked(shard_over, grouping.group_size))
    made.entry = (buffer, 0)
    with context.execution_context(ExecutionContext.WeightsFromHostFragment):
        shard = remote_load(buffer, 0, f"{made.name}_shard")
    with context.execution_context(ExecutionContext.WeightsToHostFragment):
        remote_store(buffer, 0, shard)
    return made, shard
