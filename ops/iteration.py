"""The number of the current loop iteration, in the graphs that are being built."""

from __future__ import annotations

from tensorflow.core.function import trace_type
from tensorflow.python.framework import dtypes, func_graph, ops, tensor_spec
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, control_flow_v2_func_graphs, math_ops

_LOOP_GRAPHS = (
    control_flow_v2_func_graphs.WhileBodyFuncGraph,
    control_flow_v2_func_graphs.WhileCondFuncGraph,
)
# On the graph of a loop's body: after how many iterations to count from 0 again.
_PERIOD = "_ipu_iterations_to_restart"
# Calls of one function in several loops each get the number of their own loop.
_CAPTURE_KEY = "ipu_iteration_counter"


def restart_every(iterations: int) -> None:
    """Makes the loop being built count from 0 again every N iterations."""
    setattr(ops.get_default_graph(), _PERIOD, iterations)


def current() -> tensor_lib.Tensor:
    """Returns the number of the current iteration of the innermost loop.

    Returns:
        An int32 scalar of the graph that is being built.

    Raises:
        ValueError: If no loop is being built.
    """
    return array_ops.identity(_counter(ops.get_default_graph()))


def _counter(graph: ops.Graph) -> tensor_lib.Tensor:
    """Returns a tensor that ops of `graph` can take."""
    if not _is_in_loop(graph):
        raise ValueError(
            "get_current_iteration_counter needs a loop around it, and there is none. Call it in "
            "the body of loops.repeat, loops.while_loop or tf.while_loop, of a loop over tf.range "
            "in a tf.function, or in a stage of a pipeline."
        )
    if isinstance(graph, _LOOP_GRAPHS):
        # TensorFlow gives every loop a counter of its own, the first value it carries along.
        counter = graph.inputs[0]
        period = getattr(graph, _PERIOD, None)
        return counter if period is None else math_ops.floormod(counter, period)
    if graph.is_control_flow_graph:
        with graph.outer_graph.as_default():
            return _counter(graph.outer_graph)
    return _late_capture(graph)


def _late_capture(graph: func_graph.FuncGraph) -> tensor_lib.Tensor:
    """Returns a placeholder for the number in the loop that calls the function of `graph`.

    A tf.function keeps its graph for calls elsewhere, so the number must not be part of it.
    `FuncGraph.capture_call_time_value` does nearly that, but hands the question on to the outermost
    graph, which is in no loop.
    """
    captures = graph._function_captures
    if _CAPTURE_KEY not in captures.by_ref_internal:
        spec = tensor_spec.TensorSpec([], dtypes.int32)

        def number_at_call() -> list[tensor_lib.Tensor]:
            return [current()]

        number_at_call.output_spec = spec  # type: ignore[attr-defined]
        placeholder = spec.placeholder_value(trace_type.InternalPlaceholderContext(graph))
        captures.add_or_replace(_CAPTURE_KEY, number_at_call, placeholder, spec, is_by_ref=True)
    return captures.by_ref_internal[_CAPTURE_KEY]


def _is_in_loop(graph: ops.Graph) -> bool:
    """Returns whether a graph is a loop's graph, or inside one."""
    while isinstance(graph, func_graph.FuncGraph):
        if isinstance(graph, _LOOP_GRAPHS):
            return True
        graph = graph.outer_graph
    return False
