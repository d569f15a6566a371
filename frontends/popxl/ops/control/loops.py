"""Loops over graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu import loops
from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.ops.control import arguments
from tensorflow_ipu.frontends.popxl.ops.control.call_sites import CallSiteInfo
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering

# Inputs and outputs of the loop that the graph in it does not have: iterator and condition, and
# the condition.
_LOOP_INPUTS, _LOOP_OUTPUTS = 2, 1


def _lower(lowering: Lowering, op: Op) -> None:
    """Runs the function of the graph in a loop.

    What the loop carries are the outputs, which are the next iteration's first inputs, and the
    last values of the inputs that the graph writes and that the op has to write back.
    """
    (graph,) = op.called
    function = lowering.program.function(graph)
    inputs = lowering.read_inputs(op)
    count = len(graph.outputs)

    def body(*carried: Any) -> list[Any]:
        passed = [*carried[:count], *inputs[count:]]
        for position, value in zip(op.writes, carried[count:]):
            if position >= count:
                passed[position] = value
        outputs, modified, last = function.call(passed)
        written = [modified.get(position, passed[position]) for position in op.writes]
        return [*outputs, *written, last]

    start = [*inputs[:count], *(inputs[position] for position in op.writes)]
    with lowering.effects_of(function.has_effects) as done:
        results = loops.repeat(op.attributes["repeat_count"], body, start)
        if not isinstance(results, (list, tuple)):
            results = [results]
        done.extend(r if isinstance(r, tf.Operation) else r.op for r in results[:1])
    lowering.define_outputs(op, results if start else [])


def _spec(specs: shapes.Specs, graph: Graph, **_: Any) -> list[TensorSpec]:
    return [tensor.spec for tensor in graph.outputs]


_LOOP = register(OpKind("Loop", _spec, lower=_lower, gradient=Gradient.CUT))


class LoopSiteInfo(CallSiteInfo):
    """What is known of a loop. Positions count the loop's own inputs: iterator and condition."""

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of the loop for one of the graph."""
        return super().graph_to_parent_input_index(idx) + _LOOP_INPUTS

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of the graph for one of the loop."""
        return super().parent_to_graph_input_index(idx - _LOOP_INPUTS)

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Returns the position among the outputs of the loop for one of the graph."""
        return super().graph_to_parent_output_index(idx)

    def parent_input(self, idx: int) -> Tensor:
        """Returns the tensor that is passed in at a position of the loop."""
        return super().parent_input(idx - _LOOP_INPUTS)

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the first input of the graph that a tensor is passed in for."""
        return self.called_graph.inputs[self._position_of(parent_tensor)]


def repeat(
    graph: Graph,
    repeat_count: int,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Calls a graph several times, each time with its outputs as its first inputs.

    Args:
        graph: the graph, with at least as many inputs as outputs.
        repeat_count: how often.
        *inputs: what to pass for its inputs the first time, in their order. Those that are not
            the outputs of the time before stay the same, unless they are passed by reference.
        inputs_dict: what to pass for the others, by input of the graph.

    Returns:
        The outputs of the last time; for 0 times, the first inputs.

    Raises:
        ValueError: If the count is negative, there are more outputs than inputs, or as `call` does.
        TypeError: As `call` does.
        popart.popart_exception: As `call` does.
    """
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: int,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Calls a graph several times, as `repeat` does.

    Args:
        graph: the graph.
        repeat_count: how often.
        *inputs: what to pass for its inputs the first time.
        inputs_dict: what to pass for the others, by input of the graph.
        check_inputs: whether inputs without a value are refused; else they are zero.

    Returns:
        What is known of the loop; its `outputs` are those of the last time.

    Raises:
        ValueError: As `repeat` does.
        TypeError: As `call` does.
        popart.popart_exception: As `call` does.
    """
    if repeat_count < 0:
        raise ValueError(f"Repeat count must be >= 0. Received: {repeat_count}")
    if len(graph.outputs) > len(graph.inputs):
        raise ValueError(
            "To repeat the subgraph, it must have at least as many inputs as outputs: each output "
            f"is an input of the next iteration. {graph!r} has {len(graph.outputs)} outputs and "
            f"{len(graph.inputs)} inputs."
        )
    passed = arguments.bind(graph, inputs, inputs_dict or {}, check_inputs)
    op = building.add_op(
        _LOOP,
        passed,
        [tensor.name for tensor in graph.outputs],
        _spec([], graph),
        [graph],
        {"graph": graph, "repeat_count": repeat_count},
    )
    op.modified.update(i for i, tensor in enumerate(graph.inputs) if tensor.by_ref)
    return LoopSiteInfo(op)
