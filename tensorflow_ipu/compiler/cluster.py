"""`Cluster`: a traced function for an IPU device, or the ops that a graph places on one."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensorflow.core.framework import function_pb2, node_def_pb2, op_def_pb2
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import constant_op, dtypes, function_def_to_graph, importer, ops
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import function as legacy_function
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.util import compat

from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable


def rewrite(library: function_pb2.FunctionDefLibrary) -> None:
    """Makes `PartitionedCall` nodes of all calls by name, which `Defun` of TensorFlow 1 makes.

    Args:
        library: functions, changed in place.
    """
    signatures = {function.signature.name: function.signature for function in library.function}
    for function in library.function:
        # The names of the results of each call, in order: references name them.
        results: dict[str, list[str]] = {}
        for node in function.node_def:
            if node.op in signatures:
                signature = signatures[node.op]
                _rewrite_node(node, signature)
                results[node.name] = [result.name for result in signature.output_arg]
        if results:
            _rewrite_references(function, results)


def _rewrite_node(node: node_def_pb2.NodeDef, signature: op_def_pb2.OpDef) -> None:
    node.op = "StatefulPartitionedCall" if signature.is_stateful else "PartitionedCall"
    node.attr["f"].func.name = signature.name
    for name, arguments in (("Tin", signature.input_arg), ("Tout", signature.output_arg)):
        node.attr[name].list.Clear()
        node.attr[name].list.type.extend(argument.type for argument in arguments)


def _rewrite_references(function: function_pb2.FunctionDef, results: dict[str, list[str]]) -> None:
    def renamed(reference: str) -> str:
        node, separator, output = reference.partition(":")
        if not separator or node not in results:
            return reference
        return f"{node}:output:{results[node].index(output.partition(':')[0])}"

    for node in function.node_def:
        for index, reference in enumerate(node.input):
            node.input[index] = renamed(reference)
    for key, reference in list(function.ret.items()):
        function.ret[key] = renamed(reference)


_ids = itertools.count()
# Most elements of a shape or a list of axes. Anything larger is data.
_LARGEST_CONSTANT = 16
# Attribute of graphs with the Clusters that they launch.
_CLUSTERS = "_ipu_clusters"
# The launch op in a graph knows its Cluster by name. Weak: a Cluster lives as long as the graphs
# that launch it.
_clusters: weakref.WeakValueDictionary[str, Cluster] = weakref.WeakValueDictionary()


@dataclasses.dataclass(frozen=True, eq=False)
class Cluster:
    """A traced function with everything needed to compile it.

    Attributes:
        id: Name of the Cluster, unique in the process. Starts with `cluster`.
        graph: The traced function.
        function: The same, registered with TensorFlow's runtime; None if the engine made it.
        owner: Object that has to live as long as the Cluster, because its deletion takes the graph
            apart.
        constants: Positions of the explicit inputs that are small constants where the Cluster was
            made.
        executables: Executables for the configuration in force. They go with the last Cluster that
            has them.
    """

    id: str
    graph: func_graph_lib.FuncGraph
    function: atomic_function.AtomicFunction | None
    owner: Any = None
    constants: frozenset[int] = frozenset()
    executables: list[Executable] = dataclasses.field(default_factory=list)

    __repr__ = shows(
        lambda self: {
            "": self.id,
            "inputs": len(self.graph.inputs),
            "outputs": len(self.graph.outputs),
        }
    )

    @classmethod
    def from_graph(
        cls,
        graph: func_graph_lib.FuncGraph,
        name: str,
        owner: Any = None,
        inputs: Sequence[tensor_lib.Tensor] = (),
    ) -> Cluster:
        """Makes a Cluster of a finished trace.

        Args:
            graph: the trace: its inputs are the explicit inputs, then the captures.
            name: a name that the user recognises, for the name of the Cluster.
            owner: object to keep alive.
            inputs: the explicit inputs, of a Cluster that is launched with these only.
        """
        number = next(_ids)
        identifier = f"cluster_{number}__{name}"
        function = atomic_function.from_func_graph(f"__ipu_{identifier}", graph, {})
        constants = frozenset(
            index
            for index, tensor in enumerate(inputs)
            if _is_small_constant(tensor, not ops.is_symbolic_tensor(tensor))
        )
        cluster = cls(identifier, graph, function, owner, constants)
        _clusters[identifier] = cluster
        weakref.finalize(cluster, native.forget_cluster, identifier).atexit = False
        return cluster

    @functools.cached_property
    def resource_inputs(self) -> tuple[int, ...]:
        """Positions of the arguments that are handles of variables or other resources."""
        inputs = enumerate(self.graph.inputs)
        return tuple(index for index, tensor in inputs if tensor.dtype == dtypes.resource)

    @property
    def entry(self) -> str:
        """Name of the function to run."""
        return self._traced.name.decode()

    @property
    def _traced(self) -> atomic_function.AtomicFunction:
        if self.function is None:
            raise TypeError(f"{self.id} was not traced by Python.")
        return self.function

    @functools.cached_property
    def sources(self) -> source_map.SourceMap:
        """Where the ops came from in the user's program."""
        return source_map.SourceMap(self.graph, self.entry)

    @functools.cached_property
    def eager_id(self) -> tensor_lib.Tensor:
        """The name of the Cluster as a tensor of eager mode."""
        with context.eager_mode(), ops.device("/device:CPU:0"):
            return constant_op.constant(self.id)

    def library(self) -> function_pb2.FunctionDefLibrary:
        """Returns the definitions of the function and of all that it calls."""
        found: dict[str, Any] = {}
        pending: list[Any] = [self._traced]
        while pending:
            function = pending.pop()
            name = compat.as_str(function.name)
            if name not in found:
                found[name] = function
                pending.extend(called_by(function))
        library = function_pb2.FunctionDefLibrary(
            function=[function.definition for function in found.values()]
        )
        rewrite(library)
        return library

    def variable_names(self) -> dict[int, str]:
        """Returns the names of the variables among the arguments, by position.

        Left out are variables that the trace does not know, because they are passed in by hand, and
        those whose Python object is gone: the handle of a loaded model's variable outlives it.
        """
        captures = {id(inner): outer for outer, inner in self.graph.captures}
        known = [reference() for reference in self.graph._weak_variables]
        traced = {id(variable.handle): variable.name for variable in known if variable is not None}
        names = {}
        for index, tensor in enumerate(self.graph.inputs):
            handle = captures.get(id(tensor))
            if id(handle) in traced:
                names[index] = traced[id(handle)].split(":")[0]
            elif handle is not None and ops.is_symbolic_tensor(handle):
                if handle.op.type == "VarHandleOp":
                    names[index] = handle.op.name
        return names

    def constant_arguments(self) -> frozenset[int]:
        """Returns the positions of the arguments that were small constants when it was made.

        Those are numbers, shapes and the like: whole numbers, a few of them.
        """
        captures = {id(inner) for outer, inner in self.graph.captures if _is_small_constant(outer)}
        captured = {i for i, tensor in enumerate(self.graph.inputs) if id(tensor) in captures}
        return self.constants | captured

    def keep_with(self, graph: ops.Graph) -> None:
        """Makes the Cluster live as long as `graph`, which launches it."""
        if not launches(graph):
            setattr(graph, _CLUSTERS, [])
        getattr(graph, _CLUSTERS).append(self)


def called_by(function: Any) -> list[Any]:
    """Returns the functions that a function of TensorFlow's runtime calls.

    Args:
        function: an `AtomicFunction`, or a function of TensorFlow 1's decorator `Defun`.
    """
    if isinstance(function, legacy_function._DefinedFunction):
        return list(function._sub_functions.values())
    return list(function.children)


def launches(graph: ops.Graph) -> bool:
    """Returns whether a graph launches Clusters."""
    return hasattr(graph, _CLUSTERS)


def _is_small_constant(tensor: tensor_lib.Tensor, has_value: bool = False) -> bool:
    """Returns whether a tensor is small, and has a constant value in its graph."""
    small = tensor.dtype.is_integer and tensor.shape.is_fully_defined()
    if not small or tensor.shape.num_elements() > _LARGEST_CONSTANT:
        return False
    return has_value or (ops.is_symbolic_tensor(tensor) and tensor.op.type == "Const")


# --- Clusters of the ops that a graph places on an IPU without compiling them ---
#
# The engine makes them where a graph is prepared to run (`native/plugin/placed_ops.cc`), and says
# when the last kernel that launches one is gone.

# Also in native/engine/placed_clusters.cc.
_PREFIX = "cluster_placed_"
_VARIABLE_ATTRIBUTE = "_ipu_variable"
# The compiled Clusters, until the engine drops them.
_placed_clusters: dict[str, PlacedCluster] = {}
# The graphs of sessions and functions, which know the lines of the ops.
_graphs: weakref.WeakSet[ops.Graph] = weakref.WeakSet()
# Threads make graphs while another compiles.
_graphs_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PlacedCluster(Cluster):
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


def find(identifier: str) -> Cluster:
    """Returns the Cluster of a name, made by this module or by a trace.

    Raises:
        KeyError: If the graph that made it is gone.
    """
    if not identifier.startswith(_PREFIX):
        return _clusters[identifier]
    for gone in native.gone_clusters():
        _placed_clusters.pop(gone, None)
    if identifier not in _placed_clusters:
        library = function_pb2.FunctionDefLibrary.FromString(native.placed_library(identifier))
        if not library.function:
            raise KeyError(identifier)
        _placed_clusters[identifier] = _cluster(identifier, library)
    return _placed_clusters[identifier]


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
