"""`keep_activations`: lets gradient graphs read tensors of a graph that are made inside it."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.ops.control import calls
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def keep_activations(graph: Graph, tensors: Iterable[Tensor], with_inputs: bool = False) -> None:
    """Makes tensors outputs of a graph, also where it is called already.

    Args:
        graph: the graph.
        tensors: tensors of it; those that are inputs or outputs stay what they are.
        with_inputs: whether inputs become outputs, too.
    """
    known = set(graph.outputs if with_inputs else (*graph.inputs, *graph.outputs))
    for tensor in tensors:
        if tensor not in known:
            known.add(tensor)
            graph.add_output(tensor)
            for site in graph.call_sites:
                calls.add_output(site, tensor)
