"""Collectives of the replicas of a group: reductions, gathers and slices."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Literal, get_args

import tensorflow as tf

from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.common.enums import CollectiveOperator
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, in_place, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec, as_int
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Op
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward

__all__ = ["CollectiveOps", "CommGroup", "CommGroupType", "OPS", "to_collective_op"]


CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]
#: Their names. The library computes the mean where "mul" is asked for, and so do programs for it.
OPS: tuple[str, ...] = get_args(CollectiveOps)
_MEMBERS = {"and": "LogicalAnd", "or": "LogicalOr", "square_add": "SquareAdd"}
_OUTPUT_SHAPES = ("auto", "new_axis", "concat", "meta_shape")


class CommGroupType(enum.Enum):
    """How replicas are put into groups.

    * `All`: one group.
    * `Consecutive`: the first so many, the next so many, and so on.
    * `Orthogonal`: so many replicas at the largest equal distance.
    * `Ungrouped`: each replica alone.
    """

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class CommGroup:
    """Groups of replicas, by their kind and size.

    Attributes:
        type: How replicas are put into groups.
        replicaGroupSize: Replicas of a group; 0 where the kind says it.
    """

    def __init__(
        self,
        type: CommGroupType | int | ReplicaGrouping = CommGroupType.All,  # noqa: A002
        replicaGroupSize: int = 0,  # noqa: N803
    ) -> None:
        """Makes a description of groups.

        Args:
            type: the kind; or a grouping to describe.
            replicaGroupSize: replicas of a group.

        Raises:
            ValueError: If a grouping is of none of the kinds.
        """
        if isinstance(type, ReplicaGrouping):
            type, replicaGroupSize = _described(type)  # noqa: N806
        self.type = CommGroupType(type)
        self.replicaGroupSize = replicaGroupSize

    def __repr__(self) -> str:
        return f"CommGroup(type={self.type}, replicaGroupSize={self.replicaGroupSize})"

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:  # noqa: N802, N803
        """Returns the same as a grouping.

        Args:
            numReplicas: how many replicas there are.

        Raises:
            ValueError: If the size does not divide the number of replicas.
        """
        size = {CommGroupType.All: numReplicas, CommGroupType.Ungrouped: 1}.get(
            self.type, self.replicaGroupSize
        )
        if size < 1 or numReplicas % size:
            raise ValueError(
                f"The group size must be a factor of the number of replicas, {numReplicas}. "
                f"Received: {self!r}"
            )
        stride = numReplicas // size if self.type is CommGroupType.Orthogonal else 1
        return ReplicaGrouping.strided(numReplicas, stride, size)


def _described(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
    """Returns the kind of a grouping, and its size where that matters."""
    size, stride = grouping.group_size, grouping.stride
    if size == grouping.num_replicas:
        return CommGroupType.All, 0
    if size == 1:
        return CommGroupType.Ungrouped, 0
    if stride == 1:
        return CommGroupType.Consecutive, size
    if stride * size == grouping.num_replicas:
        return CommGroupType.Orthogonal, size
    raise ValueError(f"{grouping!r} is neither consecutive nor orthogonal, so no CommGroup is it.")


def of(group: ReplicaGrouping | CommGroup | None) -> dict[str, Any]:
    """Returns the attributes of a collective for its groups: `stride` and `size`.

    Args:
        group: the groups of the user; all replicas by default.

    Raises:
        TypeError: If it is no grouping.
        ValueError: If it is for another number of replicas, or groups of replicas at a distance do
            not fill blocks of replicas.
        NotImplementedError: If replicas are not at equal distances.
    """
    replicas = context.get_ir().replication_factor
    if group is None:
        return {"stride": 1, "size": replicas}
    if isinstance(group, CommGroup):
        group = group.toReplicaGrouping(replicas)
    if not isinstance(group, ReplicaGrouping):
        raise TypeError(f"group must be a popxl.ReplicaGrouping or None. Received: {group!r}")
    if group.num_replicas != replicas:
        raise ValueError(
            f"{group!r} is for {group.num_replicas} replicas, and the Ir has {replicas}. Set "
            "ir.replication_factor before making groupings."
        )
    group.check_usable()
    return {"stride": group.stride, "size": group.group_size}


def exchanged(op_type: str, size: int) -> dict[str, Any] | None:
    """Returns the composite that a plan charges for a collective among the members of a group.

    Args:
        op_type: type of the device's collective.
        size: how many members there are; None for one.
    """
    group = op_names.COLLECTIVES[op_type].group
    return {"type": op_type, "attributes": {group: size}} if size > 1 else None


def to_collective_op(op: str) -> CollectiveOperator:
    """Returns the operator with a name.

    Args:
        op: the name.

    Raises:
        ValueError: If there is none.
    """
    if op not in OPS:
        raise ValueError(f"Not a valid op: {op!r}. Must choose from: {', '.join(OPS)}.")
    return CollectiveOperator[_MEMBERS.get(op, op.capitalize())]


def check_op(op: str) -> str:
    """Returns the name of a reduction.

    Args:
        op: the name.

    Raises:
        ValueError: If there is no such reduction.
    """
    to_collective_op(op)
    return op


def as_all_reduce(specs: shapes.Specs, op: str, stride: int, size: int) -> dict[str, Any] | None:
    """Returns the op that a plan costs for a reduction, or None for the computed op.

    The device has sums of consecutive replicas; what others gather is computed from that.

    Args:
        specs: the tensor.
        op: the name of the reduction.
        stride: the distance of members.
        size: how many there are.
    """
    if stride == 1 and op in ("add", "mean", "mul"):
        return None
    return exchanged(op_names.CROSS_REPLICA_SUM, size)


def _reduce_scatter(t: Any, op: str, stride: int, size: int, sharded: bool) -> Any:
    return collectives.shards(collectives.all_reduced(t, op, stride, size), size)[
        collectives.position(stride, size)
    ]


def reduced_spec(specs: shapes.Specs, op: str, **_: Any) -> list[TensorSpec]:
    """Returns the spec of a reduction.

    Args:
        specs: the tensor.
        op: the name of the reduction.

    Raises:
        popart.popart_exception: If booleans are added up.
    """
    if specs[0].dtype.name == "bool" and op not in ("and", "or", "min", "max"):
        raise popart_exception(
            f"Booleans cannot be reduced by {op!r}. Use 'and' or 'or', or cast the tensor."
        )
    return [specs[0]]


def shard_spec(t: TensorSpec, size: int, sharded: bool) -> TensorSpec:
    """Returns the spec of one member's shard of a flattened tensor.

    Args:
        t: the tensor.
        size: how many members there are.
        sharded: whether the part has the shape of the whole as its meta shape.
    """
    return TensorSpec((-(-t.nelms // size),), t.dtype, t.shape if sharded else ())


def _scattered_spec(
    specs: shapes.Specs, op: str, stride: int, size: int, sharded: bool
) -> list[TensorSpec]:
    reduced_spec(specs, op)
    return [shard_spec(specs[0], size, sharded)]


_ALL_REDUCE = register(
    OpKind(
        "ReplicatedAllReduce",
        reduced_spec,
        collectives.all_reduced,
        gradient=GradientRule.CUT,
        composite=as_all_reduce,
    )
)
_ALL_REDUCE_ = in_place(_ALL_REDUCE)
_REDUCE_SCATTER = register(
    OpKind(
        "ReplicatedReduceScatter",
        _scattered_spec,
        _reduce_scatter,
        gradient=GradientRule.REFUSED,
        composite=lambda specs, size, **_: exchanged(op_names.REDUCE_SCATTER, size),
    )
)


def replicated_all_reduce(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """Returns the reduction of the tensors of all replicas of a group.

    Args:
        t: the tensor of this replica.
        op: "add", "mean", "min", "max", "and", "or" or "square_add", the sum of squares; "mul" is
            the mean, as in the library.
        group: which replicas belong together; all by default.

    Returns:
        A tensor like `t`, equal on all replicas of a group. Its gradient is not defined.

    Raises:
        ValueError: If there is no such reduction, or the groups do not fit the replicas.
        NotImplementedError: If replicas of a group are not at equal distances.
    """
    return _add_all_reduce(_ALL_REDUCE, t, op, group)


def replicated_all_reduce_(
    t: Tensor, op: str = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """Reduces a tensor over the replicas of a group, in place.

    Args:
        t: the tensor of this replica.
        op: as for `replicated_all_reduce`.
        group: which replicas belong together; all by default.

    Returns:
        A view of the tensor.

    Raises:
        Exception: As `replicated_all_reduce` does.
    """
    return _add_all_reduce(_ALL_REDUCE_, t, op, group)


def _add_all_reduce(kind: OpKind, t: Tensor, op: str, group: ReplicaGrouping | None) -> Tensor:
    """Adds an all-reduce, whose result is named like its operand."""
    building.check_tensor(t)
    name = f"{t.name}_all_reduce"
    return building.add(kind, t, name=name, op=check_op(op), **of(group))


def replicated_reduce_scatter(
    t: Tensor,
    op: str = "add",
    group: ReplicaGrouping | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Returns this replica's part of the reduction of the tensors of a group.

    Args:
        t: the tensor of this replica.
        op: as for `replicated_all_reduce`.
        group: which replicas belong together; all by default.
        configure_output_for_replicated_tensor_sharding: whether the part is a shard, with the shape
            of `t` as its meta shape.

    Returns:
        A vector of n elements, for the k-th replica of a group those from `k * n` on of the
        flattened reduction. It is filled up with zeros.

    Raises:
        Exception: As `replicated_all_reduce` does.
    """
    building.check_tensor(t)
    return building.add(
        _REDUCE_SCATTER,
        t,
        # Named after the tensor: programs pair shards with variables in the order of their names.
        name=f"{t.name}_reduce_scattered",
        op=check_op(op),
        sharded=configure_output_for_replicated_tensor_sharding,
        **of(group),
    )


def _all_reduce_tp(
    t: Any, op: str, stride: int, size: int, identical_inputs: bool, identical_gradients: bool
) -> Any:
    return tf.identity(t) if identical_inputs else collectives.all_reduced(t, op, stride, size)


def _as_all_reduce_tp(
    specs: shapes.Specs, identical_inputs: bool, identical_gradients: bool, **attributes: Any
) -> dict[str, Any] | None:
    return None if identical_inputs else as_all_reduce(specs, **attributes)


def _differentiate_tp(backward: Backward, op: Op) -> None:
    """Reduces the gradient of the result; where inputs or gradients are equal, one suffices."""
    gradient: Any = backward.gradient(op.outputs[0])
    attributes = dict(op.attributes)
    attributes["identical_inputs"] = op.attributes["identical_gradients"]
    attributes["identical_gradients"] = op.attributes["identical_inputs"]
    backward.add_gradient(op.inputs[0], building.add(_ALL_REDUCE_TP, gradient, **attributes))


_ALL_REDUCE_TP = register(
    OpKind(
        "ReplicatedAllReduceTP",
        reduced_spec,
        _all_reduce_tp,
        differentiate=_differentiate_tp,
        composite=_as_all_reduce_tp,
    )
)


def replicated_all_reduce_with_grad(
    t: Tensor,
    op: str = "add",
    group: ReplicaGrouping | None = None,
    identical_inputs: bool = False,
    identical_gradients: bool = False,
) -> Tensor:
    """Returns a reduction that autodiff passes through, for layers that are spread over replicas.

    Args:
        t: the tensor of this replica.
        op: as for `replicated_all_reduce`. The gradient is the same reduction of gradients.
        group: which replicas belong together; all by default.
        identical_inputs: whether replicas of a group have equal tensors, which are the result.
        identical_gradients: whether they get equal gradients, which are passed on as they are.

    Returns:
        A tensor like `t`, equal on all replicas of a group.

    Raises:
        Exception: As `replicated_all_reduce` does.
    """
    return building.add(
        _ALL_REDUCE_TP,
        t,
        op=check_op(op),
        identical_inputs=identical_inputs,
        identical_gradients=identical_gradients,
        **of(group),
    )


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
    return None if stride == 1 else exchanged(op_names.ALL_GATHER, size)


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
    group_of = of(group)
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
    return building.add(_SHARDED_SLICE, t, name=f"{t.name}_sliced", **of(group))


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
    group_of = of(group)
    axis = shapes.positive_axis(axis, t.rank, "ReplicatedSlice")
    if t.rank == 0 or t.shape[axis] % group_of["size"]:
        raise ValueError(
            f"The number of replicas in a group, {group_of['size']}, must equally divide axis "
            f"{axis} of a tensor of the shape {t.shape}."
        )
    return building.add(_SLICE, t, axis=axis, **group_of)
