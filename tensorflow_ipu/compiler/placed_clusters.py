"""Clusters of the ops that a graph places on an IPU without compiling them.

The engine makes them where a graph is prepared to run (`native/plugin/placed_ops.cc`), and says
when the last kernel that launches one is gone.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Iterable

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import function_def_to_graph, importer, ops

from tensorflow_ipu.compiler import cluster as cluster_lib
from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.runtime import native

# Also in native/engine/placed_clusters.cc.
_PREFIX = "cluster_placed_"
_VARIABLE_ATTRIBUTE = "_ipu_variable"

# The compiled Clusters, until the engine drops them.
_clusters: dict[str, PlacedCluster] = {}
# The graphs of sessions and functions, which know the lines of the ops.
_graphs: weakref.WeakSet[ops.Graph] = weakref.WeakSet()
# Threads make graphs while another compiles.
_graphs_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PlacedCluster(cluster_lib.Cluster):
    """A group of neighboring ops as a Cluster.

    Attributes:
        functions: The ops as a function, then the functions that they call.
    """

    functions: function_pb2.FunctionDefLibrary = dataclasses.field(
        default_factory=function_pb2.FunctionDefLibrary
    )

    @property
    def entry(self) -> str:
        """Name of the function to run."""
        return str(self.functions.function[0].signature.name)

    @functools.cached_property
    def sources(self) -> source_map.SourceMap:
        """Where the ops came from in the user's program."""
        return source_map.SourceMap(self._original or self.graph, self.entry)

    @property
    def _original(self) -> ops.Graph | None:
        """The graph that the ops were made in, None if it is gone."""
        names = [node.name for node in self.functions.function[0].node_def if node.op != "Const"]
        with _graphs_lock:
            graphs = list(_graphs)
        for graph in graphs:
            if all(name in graph._nodes_by_name for name in names):
                return graph
        return None

    def library(self) -> function_pb2.FunctionDefLibrary:
        """Returns the definitions of the function and of all that it calls."""
        return self.functions

    def variable_names(self) -> dict[int, str]:
        """Returns the names of the variables among the arguments, by position."""
        attributes = self.functions.function[0].arg_attr
        return {
            index: attribute.attr[_VARIABLE_ATTRIBUTE].s.decode()
            for index, attribute in attributes.items()
            if _VARIABLE_ATTRIBUTE in attribute.attr
        }

    def constant_arguments(self) -> frozenset[int]:
        """Returns nothing: constants are part of the Cluster, no arguments."""
        return frozenset()


class _Registered:
    """A function in the form that TensorFlow's conversion to a graph expects."""

    def __init__(self, definition: function_pb2.FunctionDef) -> None:
        self.cached_definition = definition


def note_graph(graph: ops.Graph) -> None:
    """Records the graph of a session or function, for the lines of ops in it."""
    with _graphs_lock:
        _graphs.add(graph)


def find(identifier: str) -> cluster_lib.Cluster:
    """Returns the Cluster of a name, made by this module or by a trace.

    Raises:
        KeyError: If the graph that made it is gone.
    """
    if not identifier.startswith(_PREFIX):
        return cluster_lib.find(identifier)
    for gone in native.gone_clusters():
        _clusters.pop(gone, None)
    if identifier not in _clusters:
        library = function_pb2.FunctionDefLibrary.FromString(native.placed_library(identifier))
        if not library.function:
            raise KeyError(identifier)
        _clusters[identifier] = _cluster(identifier, library)
    return _clusters[identifier]


def _cluster(identifier: str, library: function_pb2.FunctionDefLibrary) -> PlacedCluster:
    """Makes the Cluster of a library whose first function is the entry."""
    graph = _graph(library.function[0], library.function[1:])
    cluster = PlacedCluster(identifier, graph, None, functions=library)
    weakref.finalize(cluster, native.forget_cluster, identifier).atexit = False
    return cluster


def _graph(
    definition: function_pb2.FunctionDef, called: Iterable[function_pb2.FunctionDef]
) -> func_graph_lib.FuncGraph:
    """Imports a function as the graph that it could have been traced to."""
    scratch = ops.Graph()
    scratch._functions.update({f.signature.name: _Registered(f) for f in called})
    with scratch.as_default():
        graph_def, names = function_def_to_graph.function_def_to_graph_def(definition)
    graph_def.library.function.extend(called)
    graph = func_graph_lib.FuncGraph(definition.signature.name)
    with _graphs_lock:
        _graphs.discard(graph)  # its ops are copies, without lines
    with graph.as_default():
        importer.import_graph_def_for_function(graph_def, name="")
    signature = definition.signature
    graph.inputs = [graph.get_tensor_by_name(names[arg.name]) for arg in signature.input_arg]
    graph.outputs = [
        graph.get_tensor_by_name(names[definition.ret[result.name]])
        for result in signature.output_arg
    ]
    return graph
