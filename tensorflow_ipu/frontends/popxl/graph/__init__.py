"""Graphs: the module `popxl.graph`."""

from tensorflow_ipu.frontends.popxl.graph.graphs import Graph
from tensorflow_ipu.frontends.popxl.graph.reach import executions, reachable, storage_of

__all__ = [
    "Graph",
]
