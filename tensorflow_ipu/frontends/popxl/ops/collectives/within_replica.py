"""Reductions over tensors on the IPUs of one replica."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.frontends.common import collectives
from tensorflow_ipu.frontends.common.errors import UndefinedValue, popart_exception
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ops.collectives.across_replicas import check_op
from tensorflow_ipu.frontends.popxl.ops.movement import init
from tensorflow_ipu.frontends.popxl.tensor import Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward


def _spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    for spec in specs[1:]:
        if (spec.shape, spec.dtype) != (specs[0].shape, specs[0].dtype):
            raise popart_exception(
                "AllReduce takes tensors of one shape and type. Received: "
                f"{specs[0].dtype.name}{specs[0].shape} and {spec.dtype.name}{spec.shape}"
            )
    return list(specs)


def _lower(lowering: GraphLowering, op: Op) -> None:
    """Puts a reduction of all tensors on each of the IPUs."""
    values = lowering.read_inputs(op)
    results = []
    for position, ipu in enumerate(op.attributes["ipus"]):
        sharded = lowering.program.is_sharded
        with scopes.ipu_shard(ipu) if sharded else contextlib.nullcontext():
            if op.attributes["identical_inputs"]:
                results.append(tf.identity(values[position]))
            else:
                results.append(collectives.reduced(tf.stack(values), op.attributes["op"]))
    lowering.define_outputs(op, results)


def _differentiate(backward: Backward, op: Op) -> None:
    """Reduces the gradients of the results; where inputs or gradients are equal, one suffices.

    Where gradients are equal, that of another result is taken for one that does not exist.
    """
    attributes = dict(op.attributes)
    if attributes["op"] != "add":
        raise popart_exception(
            f"{op!r} ({op.site}) does not have a valid grad op: of all_reduce, only 'add' has."
        )
    attributes["identical_inputs"], attributes["identical_gradients"] = (
        attributes["identical_gradients"],
        attributes["identical_inputs"],
    )
    gradients, equal = [], None
    if op.attributes["identical_gradients"]:
        known = (backward.gradient(output) for output in op.outputs)
        equal = next((gradient for gradient in known if gradient is not None), None)
    for output, ipu in zip(op.outputs, attributes["ipus"]):
        with context.ipu(ipu):
            gradient = backward.gradient(output)
            gradient = equal if gradient is None else gradient
            if gradient is None:
                gradient = init(output.shape, output.dtype, f"Gradient___{output.name}")
            gradients.append(gradient)
    for tensor, gradient in zip(op.inputs, _add(gradients, attributes)):
        backward.add_gradient(tensor, gradient)


_ALL_REDUCE = register(OpKind("AllReduce", _spec, lower=_lower, differentiate=_differentiate))


def all_reduce(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: str = "add"
) -> list[Tensor]:
    """Reduces tensors that are on different IPUs of a replica.

    Args:
        ts: tensors of one shape and type.
        ipus: the IPU of each; what the tensors say by default.
        op: "add", "mean", "min", "max", "and", "or" or "square_add"; "mul" is the mean. Only "add"
            has a gradient.

    Returns:
        The reduction, once on each IPU.

    Raises:
        ValueError: If there is no such reduction, or nothing says where a tensor is, or there are
            not as many IPUs as tensors.
        popart.popart_exception: If tensors differ in shape or type.
    """
    return _all_reduce(ts, ipus, op, False, False)


def all_reduce_identical_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: str = "add"
) -> list[Tensor]:
    """Returns equal tensors as they are, and reduces their gradients.

    Args:
        ts: tensors on different IPUs that have equal elements.
        ipus: as for `all_reduce`.
        op: as for `all_reduce`.

    Raises:
        Exception: As `all_reduce` does.
    """
    return _all_reduce(ts, ipus, op, True, False)


def all_reduce_identical_grad_inputs(
    ts: Iterable[Tensor], ipus: Sequence[int] | None = None, op: str = "add"
) -> list[Tensor]:
    """Reduces tensors whose results have equal gradients, which are passed on as they are.

    Args:
        ts: tensors on different IPUs.
        ipus: as for `all_reduce`.
        op: as for `all_reduce`.

    Raises:
        Exception: As `all_reduce` does.
    """
    return _all_reduce(ts, ipus, op, False, True)


def _all_reduce(
    ts: Iterable[Tensor],
    ipus: Sequence[int] | None,
    op: str,
    identical_inputs: bool,
    identical_gradients: bool,
) -> list[Tensor]:
    """Checks the arguments of the three functions, and adds the op."""
    tensors = list(ts)
    building.check_in_graph(context.get_current_graph(), tensors)
    places = [_ipu_of(tensor) for tensor in tensors] if ipus is None else list(ipus)
    if len(places) != len(tensors):
        raise ValueError(
            f"There must be as many IPUs as tensors. Received: {len(tensors)} tensors, "
            f"ipus={places}"
        )
    return _add(
        tensors,
        {
            "ipus": tuple(places),
            "op": check_op(op),
            "identical_inputs": identical_inputs,
            "identical_gradients": identical_gradients,
        },
    )


def _add(tensors: Sequence[Tensor], attributes: dict[str, Any]) -> list[Tensor]:
    """Adds the op, whose tensors are on several IPUs."""
    specs = _spec([tensor.spec for tensor in tensors])
    names = [f"{tensor.name}_all_reduce" for tensor in tensors]
    return building.add_op(_ALL_REDUCE, tensors, names, specs, (), attributes).outputs


def _ipu_of(tensor: Tensor) -> int:
    """Returns the IPU that a tensor is on."""
    try:
        return tensor.ipu
    except UndefinedValue:
        raise ValueError(
            f"Could not automatically infer the ipu of {tensor!r}. Pass ipus."
        ) from None
