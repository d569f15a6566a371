"""Reductions over the replicas of a group."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu import op_names
from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, in_place, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.ops.collectives import groups, operators
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def check_op(op: str) -> str:
    """Returns the name of a reduction.

    Args:
        op: the name.

    Raises:
        ValueError: If there is no such reduction.
    """
    operators.to_collective_op(op)
    return op


def as_all_reduce(specs: shapes.Specs, op: str, stride: int, size: int) -> dict[str, Any] | None:
    """Returns what a plan takes a reduction for, if it is not what is computed.

    The device has sums of consecutive replicas; what others gather is computed from that.

    Args:
        specs: the tensor.
        op: the name of the reduction.
        stride: the distance of members.
        size: how many there are.
    """
    if stride == 1 and op in ("add", "mean", "mul"):
        return None
    return groups.exchanged(op_names.CROSS_REPLICA_SUM, size)


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
    """Returns what one member's part of a flattened tensor looks like.

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
        composite=lambda specs, size, **_: groups.exchanged(op_names.REDUCE_SCATTER, size),
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
    """Replaces a tensor by the reduction of those of all replicas of a group.

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
    return building.add(kind, t, name=name, op=check_op(op), **groups.of(group))


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
        **groups.of(group),
    )
