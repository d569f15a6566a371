"""Reductions over groups of replicas, also those whose gradients are collectives."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Literal, get_args

import tensorflow as tf

from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.common.enums import CollectiveOperator
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, in_place, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Op
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward

__all__ = ["CollectiveOps", "CommGroup", "CommGroupType", "OPS", "to_collective_op"]


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


CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]


#: Their names. The library computes the mean where "mul" is asked for, and so do programs for it.
OPS: tuple[str, ...] = get_args(CollectiveOps)


_MEMBERS = {"and": "LogicalAnd", "or": "LogicalOr", "square_add": "SquareAdd"}


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
        gradient=Gradient.CUT,
        composite=as_all_reduce,
    )
)


_ALL_REDUCE_ = in_place(_ALL_REDUCE)


_REDUCE_SCATTER = register(
    OpKind(
        "ReplicatedReduceScatter",
        _scattered_spec,
        _reduce_scatter,
        gradient=Gradient.REFUSED,
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
