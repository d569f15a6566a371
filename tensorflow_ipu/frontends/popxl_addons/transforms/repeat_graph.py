"""`repeat_graph`: the transform of a graph's ops into a loop."""

from __future__ import annotations

from typing import TypeVar

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops, transforms
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs

__all__ = ["repeat_graph"]

AnyGraph = TypeVar("AnyGraph", popxl.Graph, GraphWithNamedArgs)


def repeat_graph(graph: AnyGraph, repeat_count: int) -> AnyGraph:
    """Moves all ops of a graph into a loop.

    The graph is called as before. As with `popxl.ops.repeat`, its outputs are the first inputs of
    the next time, and what it writes into an input is there the next time.

    Args:
        graph: the graph, with at least as many inputs as outputs.
        repeat_count: how often the ops run.

    Returns:
        The same graph.

    Raises:
        ValueError: If the number is negative, or there are more outputs than inputs.
    """
    repeated = graph if isinstance(graph, popxl.Graph) else graph.graph
    if repeat_count < 0 or len(repeated.outputs) > len(repeated.inputs):
        raise ValueError(
            "To repeat a graph, the number must be at least 0, and there must be as many inputs as "
            f"outputs or more. Received: {repeat_count} times, {len(repeated.inputs)} inputs and "
            f"{len(repeated.outputs)} outputs of {repeated!r}."
        )
    body, inputs = transforms.outline_whole(repeated, f"{repeated.name}_repeated")
    with repeated:
        call = ops.repeat_with_info(body, repeat_count, inputs_dict=inputs)
        call.op.after = []  # all ops before it are in the loop
        for output in call.outputs:
            popxl.graph_output(output)
    return graph
