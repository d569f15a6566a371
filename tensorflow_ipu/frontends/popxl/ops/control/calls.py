"""Calls of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.ops.control import arguments
from tensorflow_ipu.frontends.popxl.ops.control.call_sites import CallSiteInfo
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering


def _lower(lowering: Lowering, op: Op) -> None:
    """Calls the function of the graph."""
    (graph,) = op.called
    function = lowering.program.function(graph)
    inputs = lowering.read_inputs(op)
    with lowering.effects_of(function.has_effects) as done:
        outputs, modified, last = function.call(inputs)
        done.append(last)
    lowering.define_outputs(op, [*outputs, *(modified.get(i, inputs[i]) for i in op.writes)])


def _spec(specs: shapes.Specs, graph: Graph) -> list[TensorSpec]:
    return [tensor.spec for tensor in graph.outputs]


CALL = register(OpKind("Call", _spec, lower=_lower))


def call(
    graph: Graph,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Calls a graph: its inputs are copied in, and its outputs out.

    Args:
        graph: the graph.
        *inputs: what to pass for its inputs, in their order; what is no tensor becomes a constant.
        inputs_dict: what to pass for the others, by input of the graph.

    Returns:
        The outputs.

    Raises:
        ValueError: If there are too many inputs or too few, or tensors are in other graphs.
        TypeError: If a value cannot become a tensor.
        popart.popart_exception: If shape or type of a tensor is not that of the input.
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Calls a graph as `call` does.

    Args:
        graph: the graph.
        *inputs: what to pass for its inputs, in their order.
        inputs_dict: what to pass for the others, by input of the graph.
        check_inputs: whether inputs without a value are refused; else they are zero.

    Returns:
        What is known of the call; its `outputs` are those of the call.

    Raises:
        ValueError: As `call` does.
        TypeError: As `call` does.
        popart.popart_exception: As `call` does.
    """
    passed = arguments.bind(graph, inputs, inputs_dict or {}, check_inputs)
    names = [tensor.name for tensor in graph.outputs]
    specs = _spec([], graph)
    op = building.add_op(CALL, passed, names, specs, [graph], {"graph": graph})
    op.modified.update(i for i, tensor in enumerate(graph.inputs) if tensor.by_ref)
    return CallSiteInfo(op)


def add_output(op: Op, output: Tensor) -> Tensor:
    """Gives a call one more output, for a tensor that became an output of its graph.

    Args:
        op: the call.
        output: the output of the graph.
    """
    number = op.graph.ir.next_number("tensor")
    return op.graph.add_op_output(op, f"autodiff_output__t{number}", output.spec)
