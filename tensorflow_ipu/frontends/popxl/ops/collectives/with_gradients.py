"""Reductions over the replicas of a group that autodiff passes through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.ops.collectives import groups, reductions
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping
from tensorflow_ipu.frontends.popxl.tensor import Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward


def _all_reduce_tp(
    t: Any, op: str, stride: int, size: int, identical_inputs: bool, identical_gradients: bool
) -> Any:
    return tf.identity(t) if identical_inputs else collectives.all_reduced(t, op, stride, size)


def _as_all_reduce_tp(
    specs: shapes.Specs, identical_inputs: bool, identical_gradients: bool, **attributes: Any
) -> dict[str, Any] | None:
    return None if identical_inputs else reductions.as_all_reduce(specs, **attributes)


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
        reductions.reduced_spec,
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
        op=reductions.check_op(op),
        identical_inputs=identical_inputs,
        identical_gradients=identical_gradients,
        **groups.of(group),
    )
