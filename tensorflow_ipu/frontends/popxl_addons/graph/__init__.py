"""Graphs whose variables have names: the module `popxl_addons.graph`."""

from tensorflow_ipu.frontends.popxl_addons.graph.bound_graph import BoundGraph
from tensorflow_ipu.frontends.popxl_addons.graph.named_graph import GraphWithNamedArgs

__all__ = ["BoundGraph", "GraphWithNamedArgs"]
