"""`route_tensor_into_graph`: tensors of a caller, for a graph that is called; its module."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.graph import reachable
from tensorflow_ipu.frontends.popxl.transforms import add_input

__all__ = ["is_subgraph", "route_tensor_into_graph"]


def is_subgraph(parent: popxl.Graph, sub: popxl.Graph) -> bool:
    """Returns whether a graph calls another one, directly or not.

    Args:
        parent: the graph that calls.
        sub: the other one.
    """
    return any(called is sub for called in reachable(parent)[1:])


def route_tensor_into_graph(
    tensor: popxl.Tensor, graph: popxl.Graph | None = None, modified: bool = False
) -> popxl.Tensor:
    """Returns a tensor as an input of a graph that its graph calls, directly or not.

    All calls and loops on the way pass it on.

    Args:
        tensor: the tensor.
        graph: the graph; the current one by default.
        modified: whether what the graph writes into it changes the tensor: it is then passed by
            reference.

    Returns:
        The input; the tensor itself if it is in that graph.

    Raises:
        ValueError: If the graph, or one that calls it, is not called from the graph of the tensor.
        NotImplementedError: If it is called by a conditional.
    """
    graph = popxl.gcg() if graph is None else graph
    return _route(tensor, graph, modified, {tensor.graph: tensor})


def _route(
    tensor: popxl.Tensor,
    graph: popxl.Graph,
    modified: bool,
    known: dict[popxl.Graph, popxl.Tensor],
) -> popxl.Tensor:
    """Returns the tensor in a graph; `known` has it in others."""
    if graph in known:
        return known[graph]
    if graph.ir is not tensor.ir or not is_subgraph(tensor.graph, graph):
        raise ValueError(
            f"{tensor!r} is not in the graph {graph!r}, nor in one from which that is called. Call "
            "the graph before a tensor of the caller is routed into it."
        )
    passed = [_route(tensor, site.graph, modified, known) for site in graph.call_sites]
    known[graph] = add_input(graph, passed, tensor.name, modified)
    return known[graph]
