"""Choices between two graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.ops.casts import init
from tensorflow_ipu.frontends.popxl.ops.control import arguments, calls
from tensorflow_ipu.frontends.popxl.ops.control.conditional_sites import ConditionalSiteInfo
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike, graph_input

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward
    from tensorflow_ipu.frontends.popxl.transforms.grad_graph_info import GradGraphInfo


def _lower(lowering: Lowering, op: Op) -> None:
    """Calls the function of the graph that is chosen."""
    then_branch, else_branch = (lowering.program.function(graph) for graph in op.called)
    condition, *inputs = lowering.read_inputs(op)
    split = len(then_branch.graph.inputs)

    def run(branch: Any, passed: list[Any]) -> Any:
        def call() -> list[Any]:
            outputs, _, last = branch.call(passed)
            with tf.control_dependencies([last]):
                return [tf.identity(value) for value in outputs] or [tf.constant(0)]

        return call

    with lowering.effects_of(then_branch.has_effects or else_branch.has_effects) as done:
        results = tf.cond(
            tf.reshape(condition, []),
            run(then_branch, inputs[:split]),
            run(else_branch, inputs[split:]),
        )
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        done.append(results[0].op)
    lowering.define_outputs(op, results if op.outputs else [])


def _spec(specs: shapes.Specs, then_branch: Graph, **_: Any) -> list[TensorSpec]:
    return [tensor.spec for tensor in then_branch.outputs]


def _differentiate(backward: Backward, op: Op) -> None:
    """Chooses between the gradient graphs of the two graphs.

    The gradient graphs differ in inputs and outputs. Each is called by a graph that has gradients
    for the inputs of both: zeros for those of the graph that was not chosen.
    """
    infos = [backward.differentiate(graph) for graph in op.called]
    passed = [_passed(backward, op, side, info) for side, info in enumerate(infos)]
    branches = []
    for side, info in enumerate(infos):
        branch = op.graph.ir.new_graph(f"{info.graph.id}_branch")
        with branch:
            inputs = [
                graph_input(**t.spec, name=own.name)
                for t, own in zip(passed[side], info.graph.inputs)
            ]
            results = calls.call(info.graph, *inputs)
            for other, known in enumerate(infos):
                for position, connection in enumerate(known.expected_outputs):
                    tensor = connection.fwd_tensor
                    zeros = other != side
                    branch.add_output(init(**tensor.spec) if zeros else results[position])
        branches.append(branch)
    condition = backward.forward_value(op.inputs[0])
    outputs = iter(conditional(condition, branches[0], branches[1], passed[0], passed[1]))
    for side, info in enumerate(infos):
        for connection in info.expected_outputs:
            parent = op.inputs[_position(op, side, connection.fwd_tensor)]
            backward.add_gradient(parent, next(outputs))


def _position(op: Op, side: int, tensor: Tensor) -> int:
    """Returns the position among the inputs of a choice for an input of one of its graphs."""
    first = 1 if side == 0 else 1 + len(op.called[0].inputs)
    return first + op.called[side].inputs.index(tensor)


def _passed(backward: Backward, op: Op, side: int, info: GradGraphInfo) -> list[Tensor]:
    """Returns what the gradient graph of one of the graphs takes."""
    called, passed = op.called[side], []
    for connection in info.expected_inputs:
        tensor = connection.fwd_tensor
        if connection.connection_type.value == "FwdGrad":
            parent = op.outputs[called.outputs.index(tensor)]
            gradient = backward.gradient(parent)
            passed.append(init(**parent.spec) if gradient is None else gradient)
        elif tensor in called.inputs:
            passed.append(backward.forward_value(op.inputs[_position(op, side, tensor)]))
        else:
            raise popart_exception(
                f"The gradient graph of {called!r} takes {tensor!r}, which {op!r} ({op.site}) does "
                "not return. Differentiate the graph after making the conditional."
            )
    return passed


_IF = register(OpKind("If", _spec, lower=_lower, differentiate=_differentiate))


def conditional(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Iterable[TensorLike] | None = None,
    else_inputs: Iterable[TensorLike] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Calls one of two graphs, on each replica by its own condition.

    Args:
        cond: one boolean.
        then_branch: the graph to call if it is true.
        else_branch: the graph to call otherwise, with equal outputs.
        then_inputs: what to pass for the inputs of the one.
        else_inputs: what to pass for the inputs of the other.
        then_inputs_dict: the same by input of the graph.
        else_inputs_dict: the same by input of the graph.

    Returns:
        The outputs.

    Raises:
        ValueError: If outputs of the graphs differ in number, or as `call` does.
        NotImplementedError: If a graph takes inputs by reference.
        popart.popart_exception: If outputs differ in shape or type, or `cond` is no boolean.
    """
    return conditional_with_info(
        cond,
        then_branch,
        else_branch,
        then_inputs,
        else_inputs,
        then_inputs_dict,
        else_inputs_dict,
    ).outputs


def conditional_with_info(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Iterable[TensorLike] | None = None,
    else_inputs: Iterable[TensorLike] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """Calls one of two graphs, as `conditional` does.

    Args:
        cond: one boolean.
        then_branch: the graph to call if it is true.
        else_branch: the graph to call otherwise, with equal outputs.
        then_inputs: what to pass for the inputs of the one.
        else_inputs: what to pass for the inputs of the other.
        then_inputs_dict: the same by input of the graph.
        else_inputs_dict: the same by input of the graph.
        check_inputs: whether inputs without a value are refused; else they are zero.

    Returns:
        What is known of the choice; its `outputs` are those of the graph.

    Raises:
        Exception: As `conditional` does.
    """
    building.check_in_graph(context.get_current_graph(), [cond])
    _check_branches(cond, then_branch, else_branch)
    passed = [
        cond,
        *arguments.bind(
            then_branch,
            list(then_inputs or []),
            then_inputs_dict or {},
            check_inputs,
            " for the then_branch",
        ),
        *arguments.bind(
            else_branch,
            list(else_inputs or []),
            else_inputs_dict or {},
            check_inputs,
            " for the else_branch",
        ),
    ]
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    pairs = zip(then_branch.outputs, else_branch.outputs)
    names = [f"{one.name}_or_{other.name}" for one, other in pairs]
    specs = _spec([], **branches)
    return ConditionalSiteInfo(
        building.add_op(_IF, passed, names, specs, [then_branch, else_branch], dict(branches))
    )


def _check_branches(cond: Tensor, then_branch: Graph, else_branch: Graph) -> None:
    """Refuses graphs that one op cannot choose between."""
    if len(then_branch.outputs) != len(else_branch.outputs):
        raise ValueError(
            "The then_branch and the else_branch must have the same number of outputs. They have "
            f"{len(then_branch.outputs)} and {len(else_branch.outputs)}."
        )
    for graph in (then_branch, else_branch):
        if any(tensor.by_ref for tensor in graph.inputs):
            raise NotImplementedError(
                f"TensorByRef is not implemented for the conditional op: {graph!r} has such inputs."
            )
    if cond.dtype is not dtypes.bool or cond.nelms != 1:
        raise popart_exception(f"The condition must be one boolean. Received: {cond!r}")
    for one, other in zip(then_branch.outputs, else_branch.outputs):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise popart_exception(
                f"Outputs of the two graphs differ in shape or type: {one!r} and {other!r}."
            )
