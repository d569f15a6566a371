"""Gathers tensors from the replicas of a group, and takes a replica's part of a tensor."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import as_int
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.ops.collectives import reductions
from tensorflow_ipu.frontends.popxl.ops.collectives.reductions import shard_spec
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.util import op_names

_OUTPUT_SHAPES = ("auto", "new_axis", "concat", "meta_shape")


def _gathered_spec(
    specs: shapes.Specs, form: str, axis: int, stride: int, size: int, whole: tuple[int, ...]
) -> list[TensorSpec]:
    (t,) = specs
    if form == "new_axis":
        return [t.with_shape((size, *t.shape))]
    if form == "meta_shape":
        return [t.with_shape(whole)]
    shape = list(t.shape)
    shape[axis] *= size
    return [t.with_shape(tuple(shape))]


def _gather(t: Any, form: str, axis: int, stride: int, size: int, whole: tuple[int, ...]) -> Any:
    rows = collectives.members(t, stride, size)
    if form == "new_axis":
        return rows
    if form == "meta_shape":
        return _unsharded(rows, whole)
    return tf.concat(tf.unstack(rows), axis)


def _unsharded(rows: Any, whole: Any) -> Any:
    """Returns a tensor from its shards."""
    flat, count = tf.reshape(rows, [-1]), tf.TensorShape(whole).num_elements()
    return tf.reshape(flat if flat.shape[0] == count else flat[:count], whole)


def _as_all_gather(specs: shapes.Specs, stride: int, size: int, **_: Any) -> dict[str, Any] | None:
    """The device gathers from consecutive replicas; others are selected from that."""
    return None if stride == 1 else reductions.exchanged(op_names.ALL_GATHER, size)


def _gather_gradient(
    inputs: Any,
    outputs: Any,
    gradients: Any,
    form: str,
    axis: int,
    stride: int,
    size: int,
    whole: tuple[int, ...],
) -> list[Any]:
    """Returns this replica's part of the gradient, without a sum over replicas."""
    (gradient,), own = gradients, collectives.position(stride, size)
    if form == "new_axis":
        return [gradient[own]]
    if form == "meta_shape":
        return [tf.reshape(collectives.shards(gradient, size)[own], inputs[0].shape)]
    return [tf.stack(tf.split(gradient, size, axis))[own]]


def _sharded_slice_spec(specs: shapes.Specs, stride: int, size: int) -> list[TensorSpec]:
    return [shard_spec(specs[0], size, True)]


def _sharded_slice(t: Any, stride: int, size: int) -> Any:
    return collectives.shards(t, size)[collectives.position(stride, size)]


def _sharded_slice_gradient(
    inputs: Any, outputs: Any, gradients: Any, stride: int, size: int
) -> list[Any]:
    return [_unsharded(collectives.members(gradients[0], stride, size), inputs[0].shape)]


def _slice_spec(specs: shapes.Specs, axis: int, stride: int, size: int) -> list[TensorSpec]:
    shape = list(specs[0].shape)
    shape[axis] //= size
    if shape[axis] == 1 and size > 1:
        del shape[axis]
    return [specs[0].with_shape(tuple(shape))]


def _slice(t: Any, axis: int, stride: int, size: int) -> Any:
    if size == 1:
        return tf.identity(t)
    part = tf.stack(tf.split(t, size, axis))[collectives.position(stride, size)]
    return tf.squeeze(part, axis) if part.shape[axis] == 1 else part


def _slice_gradient(
    inputs: Any, outputs: Any, gradients: Any, axis: int, stride: int, size: int
) -> list[Any]:
    shape = list(inputs[0].shape)
    shape[axis] //= size
    rows = collectives.members(tf.reshape(gradients[0], shape), stride, size)
    return [tf.concat(tf.unstack(rows), axis)]


_GATHER = register(
    OpKind(
        "ReplicatedAllGather",
        _gathered_spec,
        _gather,
        _gather_gradient,
        composite=_as_all_gather,
    )
)
_SHARDED_SLICE = register(
    OpKind("ReplicaShardedSlice", _sharded_slice_spec, _sharded_slice, _sharded_slice_gradient)
)
_SLICE = register(OpKind("ReplicatedSlice", _slice_spec, _slice, _slice_gradient))


def replicated_all_gather(
    t: Tensor,
    axis: int = 0,
    group: ReplicaGrouping | None = None,
    output_shape: str = "auto",
) -> Tensor:
    """Returns the tensors of all replicas of a group.

    The gradient of a replica's tensor is its part of the gradient of the result.

    Args:
        t: the tensor of this replica.
        axis: the axis along which they are joined.
        group: which replicas belong together; all by default.
        output_shape: "concat": joined along the axis; "new_axis": along a new first one;
            "meta_shape": the tensor that these are shards of; "auto": that for a tensor that is a
            shard, else "concat".

    Returns:
        A tensor that is equal on all replicas of a group.

    Raises:
        ValueError: If the axis is no int, `output_shape` is something else, or the groups do not
            fit the replicas.
        popart.popart_exception: If there is no such axis, or shards do not fill the meta shape.
    """
    if as_int(axis) is None:
        raise ValueError(f"Axis should be an int. Received: axis={axis!r}")
    if output_shape not in _OUTPUT_SHAPES:
        raise ValueError(
            f"output_shape must equal one of {', '.join(_OUTPUT_SHAPES)}. Received: "
            f"{output_shape!r}"
        )
    building.check_in_graph(context.get_current_graph(), [t])
    if output_shape == "auto":
        output_shape = "meta_shape" if t.meta_shape else "concat"
    group_of = reductions.of(group)
    if output_shape == "meta_shape":
        _check_shards(t, group_of["size"])
    if output_shape == "concat":
        axis = shapes.positive_axis(axis, t.rank, "ReplicatedAllGather")
    if output_shape == "concat" and not t.rank:
        output_shape = "new_axis"
    attributes = {"form": output_shape, "axis": axis, "whole": t.meta_shape, **group_of}
    return building.add(_GATHER, t, name=f"{t.name}_all_gathered", **attributes)


def _check_shards(t: Tensor, size: int) -> None:
    """Refuses tensors that are no shards, or not all of them."""
    whole = TensorSpec(t.meta_shape, t.dtype).nelms if t.meta_shape else None
    if whole is None or whole > t.nelms * size:
        raise popart_exception(
            f"{t!r} cannot be gathered to its meta shape, {t.meta_shape}, from {size} replica(s). "
            "Pass the group of replicas that the tensor is sharded over."
        )


def replica_sharded_slice(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """Returns this replica's shard of a tensor that all replicas of a group have.

    Args:
        t: the tensor.
        group: which replicas belong together; all by default.

    Returns:
        A vector with the shape of `t` as its meta shape.

    Raises:
        Exception: As `replicated_all_gather` does for groups.
    """
    building.check_tensor(t)
    return building.add(_SHARDED_SLICE, t, name=f"{t.name}_sliced", **reductions.of(group))


def replicated_slice(t: Tensor, axis: int = 0, group: ReplicaGrouping | None = None) -> Tensor:
    """Returns this replica's part of a tensor that all replicas of a group have.

    Args:
        t: the tensor.
        axis: the axis along which it is cut into as many parts as a group has replicas.
        group: which replicas belong together; all by default.

    Returns:
        The part. If it has length 1, the axis is left out.

    Raises:
        ValueError: If parts would not be equal, or groups do not fit the replicas.
        popart.popart_exception: If there is no such axis.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    group_of = reductions.of(group)
    axis = shapes.positive_axis(axis, t.rank, "ReplicatedSlice")
    if t.rank == 0 or t.shape[axis] % group_of["size"]:
        raise ValueError(
            f"The number of replicas in a group, {group_of['size']}, must equally divide axis "
            f"{axis} of a tensor of the shape {t.shape}."
        )
    return building.add(_SLICE, t, axis=axis, **group_of)
