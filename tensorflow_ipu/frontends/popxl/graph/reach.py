"""What can be reached from a graph or a tensor."""

from __future__ import annotations

import itertools

from tensorflow_ipu.frontends.popxl.graph.graphs import Graph
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def reachable(graph: Graph) -> list[Graph]:
    """Returns a graph and all that it calls, directly or not, each once.

    Args:
        graph: the graph.
    """
    found, known = [graph], {graph}
    for caller in found:  # grows meanwhile
        new = [callee for callee in caller.called_graphs if callee not in known]
        found += new
        known.update(new)
    return found


def executions(graph: Graph) -> int:
    """Returns how often a run of the main graph runs a graph, were each branch it is in taken.

    Args:
        graph: the graph.
    """
    if graph is graph.main_graph:
        return 1
    sites = ((executions(op.graph), op.attributes) for op in graph.call_sites)
    return sum(runs * attributes.get("repeat_count", 1) for runs, attributes in sites)


def storage_of(tensor: Tensor) -> list[Tensor]:
    """Returns the tensors with storage of their own whose storage a tensor shares.

    Args:
        tensor: the tensor.
    """
    if not tensor.sources:
        return [tensor]
    roots = itertools.chain.from_iterable(storage_of(source) for source in tensor.sources)
    return list(dict.fromkeys(roots))
