"""Loops over graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.frontends.popxl import building, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.ir import Graph
from tensorflow_ipu.frontends.popxl.ops import calls
from tensorflow_ipu.frontends.popxl.ops.calls import CallSiteInfo
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike, graph_input

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering

# The graph that a loop runs has two inputs, and one output, that the loop does not take or return:
# iterator and condition, and the condition.
_LOOP_INPUTS, _LOOP_OUTPUTS = 2, 1


def _lower(lowering: GraphLowering, op: Op) -> None:
    """Runs the function of the graph in a loop.

    The graph around it, which the loop names as the one that it runs, does nothing but call it.
    What the loop carries are the outputs, which are the next iteration's first inputs, and the
    last values of the inputs that the graph writes and that the op has to write back.
    """
    graph = op.attributes["graph"]
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
        tensors = [*graph.outputs, *(graph.inputs[position] for position in op.writes)]
        return [*map(lowering.placed, tensors, [*outputs, *written]), last]

    start = [*inputs[:count], *(inputs[position] for position in op.writes)]
    with lowering.effects_of(function.has_effects) as done:
        results = loops.repeat(op.attributes["repeat_count"], body, start)
        if not isinstance(results, (list, tuple)):
            results = [results]
        done.extend(r if isinstance(r, tf.Operation) else r.op for r in results[:1])
    lowering.define_outputs(op, results if start else [])


def _spec(specs: shapes.Specs, graph: Graph, **_: Any) -> list[TensorSpec]:
    return [tensor.spec for tensor in graph.outputs]


_LOOP = register(OpKind("Loop", _spec, lower=_lower, gradient=Gradient.CUT, is_loop=True))
_BODY = register(OpKind("LoopBody", _spec, gradient=Gradient.CUT, is_loop=True))


class LoopSiteInfo(CallSiteInfo):
    """Operands, results and graphs of one loop.

    The graph that it runs is one around the graph that is repeated: its inputs are iterator and
    condition, then those of the graph; its outputs the condition, then those of the graph. The
    loop takes and returns neither, but positions of inputs count iterator and condition.
    """

    def parent_input(self, idx: int) -> Tensor:
        """Returns the tensor that is passed in at a position of the loop.

        Args:
            idx: the position, from 2.

        Raises:
            IndexError: If there is none.
        """
        self._check_input(idx)
        return self.inputs[idx - _LOOP_INPUTS]

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of the loop for one of its graph: the same.

        Args:
            idx: the position.

        Raises:
            IndexError: If nothing is passed in there.
        """
        return self._check_input(idx)

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of its graph for one of the loop: the same.

        Args:
            idx: the position.

        Raises:
            IndexError: If nothing is passed in there.
        """
        return self._check_input(idx)

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Returns the position among the outputs of the loop for one of its graph: one less.

        Args:
            idx: the position, from 1.

        Raises:
            IndexError: If nothing comes out there.
        """
        return super().graph_to_parent_output_index(idx - _LOOP_OUTPUTS)

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Returns the position among the outputs of its graph for one of the loop: one more.

        Args:
            idx: the position.

        Raises:
            IndexError: If nothing comes out there.
        """
        return super().parent_to_graph_output_index(idx) + _LOOP_OUTPUTS

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the first input of the loop's graph that a tensor is passed in for.

        Args:
            parent_tensor: the tensor.

        Raises:
            ValueError: If it is not passed in.
        """
        return self.called_graph.inputs[self._position_of(parent_tensor) + _LOOP_INPUTS]

    def _check_input(self, idx: int) -> int:
        """Returns the position of a loop's operand after checking it."""
        super().graph_to_parent_input_index(idx - _LOOP_INPUTS)
        return idx


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
    passed = calls.bind(graph, inputs, inputs_dict or {}, check_inputs)
    op = building.add_op(
        _LOOP,
        passed,
        [tensor.name for tensor in graph.outputs],
        _spec([], graph),
        [_around(graph)],
        {"graph": graph, "repeat_count": repeat_count},
    )
    op.modified.update(i for i, tensor in enumerate(graph.inputs) if tensor.by_ref)
    return LoopSiteInfo(op)


def _around(graph: Graph) -> Graph:
    """Returns the wrapper graph of a loop, which calls the repeated graph."""
    found = graph.ir.create_empty_graph(f"{graph.id}__loop_wrapper")
    with found:
        graph_input((), dtypes.int32, "iterator")
        condition = graph_input((), dtypes.bool, "condition")
        inputs = [graph_input(**t.spec, name=t.name, by_ref=t.by_ref) for t in graph.inputs]
        names = [tensor.name for tensor in graph.outputs]
        op = building.add_op(_BODY, inputs, names, _spec([], graph), [graph], {"graph": graph})
        op.modified.update(i for i, tensor in enumerate(graph.inputs) if tensor.by_ref)
        for tensor in (condition, *op.outputs):
            found.add_output(tensor)
    return found
