"""What can be reached from a graph or a tensor."""

from __future__ import annotations

import itertools

from tensorflow_ipu.frontends.popxl.graph.graphs import Graph
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def reachable(graph: Graph) -> list[Graph]:
    """Returns a graph and all that it calls, directly or not, each once."""
    found = [graph]
    for caller in found:  # grows meanwhile
        found.extend(
            callee for callee in caller.called_graphs if not any(callee is g for g in found)
        )
    return found


def storage_of(tensor: Tensor) -> list[Tensor]:
    """Returns the tensors with storage of their own whose storage a tensor shares."""
    if not tensor.sources:
        return [tensor]
    roots = itertools.chain.from_iterable(storage_of(source) for source in tensor.sources)
    return list(dict.fromkeys(roots))
