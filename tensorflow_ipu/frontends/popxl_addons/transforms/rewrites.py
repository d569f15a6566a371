"""Rewrites of graphs in place: a graph's ops as a loop, and a caller's tensor as an input."""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakKeyDictionary

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops, transforms
from tensorflow_ipu.frontends.popxl.ir import reachable
from tensorflow_ipu.frontends.popxl.transforms import add_input
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs

__all__ = ["called_graph_paths", "is_subgraph", "repeat_graph", "route_tensor_into_graph"]


# Of each graph: the inputs that stand for tensors of callers, by tensor.
_routed: WeakKeyDictionary[popxl.Graph, dict[popxl.Tensor, popxl.Tensor]] = WeakKeyDictionary()
AnyGraph = TypeVar("AnyGraph", popxl.Graph, GraphWithNamedArgs)


def called_graph_paths(parent_graph: popxl.Graph, subgraph: popxl.Graph) -> list[list[popxl.Graph]]:
    """Returns the ways on which a graph calls another one.

    Args:
        parent_graph: the graph that calls.
        subgraph: the other one.

    Returns:
        For each way the graphs that are called in turn, the last of which is `subgraph`.
    """
    paths = []
    for called in parent_graph.called_graphs:
        if called is subgraph:
            paths.append([called])
        paths += [[called, *path] for path in called_graph_paths(called, subgraph)]
    return paths


def is_subgraph(parent: popxl.Graph, subgraph: popxl.Graph) -> bool:
    """Returns whether a graph calls another one, directly or not.

    Args:
        parent: the graph that calls.
        subgraph: the other one.
    """
    return any(called is subgraph for called in reachable(parent)[1:])


def route_tensor_into_graph(
    t: popxl.Tensor, graph: popxl.Graph | None = None, modified: bool | None = None
) -> popxl.Tensor:
    """Returns a tensor as an input of a graph that its graph calls, directly or not.

    All calls and loops on the way pass it on. A tensor is one input, however often it is routed.

    Args:
        t: the tensor.
        graph: the graph; the current one by default.
        modified: whether the graph's writes into it change the tensor, which is then passed by
            reference; not by default.

    Returns:
        The input; the tensor itself if it is in that graph.

    Raises:
        ValueError: If the graph, or one that calls it, is not called from the graph of the tensor.
        NotImplementedError: If it is called by a conditional.
    """
    graph = popxl.gcg() if graph is None else graph
    return _route(t, graph, bool(modified), {t.graph: t})


def _route(
    tensor: popxl.Tensor,
    graph: popxl.Graph,
    modified: bool,
    known: dict[popxl.Graph, popxl.Tensor],
) -> popxl.Tensor:
    """Returns the tensor in a graph; `known` has it in others."""
    if graph in known:
        return known[graph]
    there = _routed.setdefault(graph, {})
    if tensor in there and (there[tensor].by_ref or not modified):
        return there[tensor]
    if graph.ir is not tensor.ir or not is_subgraph(tensor.graph, graph):
        raise ValueError(
            f"{tensor!r} is not in the graph {graph!r} and is not in a known parent graph, which "
            "calls it. Call the graph before a tensor of the caller is routed into it."
        )
    passed = [_route(tensor, site.graph, modified, known) for site in graph.call_sites]
    known[graph] = there[tensor] = add_input(graph, passed, tensor.name, modified)
    return known[graph]


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
