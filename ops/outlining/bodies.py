"""Finds the outlined function that equals a new one, so that a program has it once."""

from __future__ import annotations

import types
from typing import Any

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import dtypes, op_def_registry, ops
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.fingerprint import fingerprint
from tensorflow_ipu.compiler.ir.program import OUTLINED_PREFIX, Program, called_functions

# On the graph of a program: its outlined functions, by digest.
_BODIES = "_ipu_outlined_bodies"
# Ops that TensorFlow takes for stateful, and that do the same in every call: readers of variables,
# and what replicas do together or know of themselves.
_SHAREABLE = op_names.QUERIES.union(
    op_names.LINK_COLLECTIVES,
    (op_names.REPLICA_INDEX, op_names.REPLICA_COUNT, op_names.EQUALITY_PROMISE, op_names.ASSERTION),
)
_GRADIENT = "_gradient_op_type"


def body_of(graph: func_graph_lib.FuncGraph, outer: ops.Graph) -> ConcreteFunction:
    """Returns a function of the program that does what a traced one does.

    Args:
        graph: the trace.
        outer: the graph that it is to be called in.

    Returns:
        A function made of `graph`, or, unless it has state, of an equal trace before.
    """
    name = f"{OUTLINED_PREFIX}{graph.name}_{ops.uid()}"
    traced = atomic_function.from_func_graph(name, graph, {})
    body = ConcreteFunction(traced, shared_func_graph=True)
    library = Cluster("outlined", graph, traced).library()
    if any(_has_state(node) for function in library.function for node in function.node_def):
        return body
    digest = _digest(library, traced.name.decode(), graph)
    root = _root(outer)
    if not hasattr(root, _BODIES):
        setattr(root, _BODIES, {})
    bodies: dict[str, ConcreteFunction] = getattr(root, _BODIES)
    return bodies.setdefault(digest, body)


def _root(graph: ops.Graph) -> ops.Graph:
    """Returns the graph of the program that a graph is part of."""
    while isinstance(graph.outer_graph, func_graph_lib.FuncGraph):
        graph = graph.outer_graph
    return graph


def _has_state(node: node_def_pb2.NodeDef) -> bool:
    """Whether a node does more than compute. Those that run functions are as these are."""
    if node.op in _SHAREABLE or called_functions(node):
        return False
    definition = op_def_registry.get(node.op)
    return definition is not None and definition.is_stateful


def _digest(
    library: function_pb2.FunctionDefLibrary, entry: str, graph: func_graph_lib.FuncGraph
) -> str:
    """Returns a hash of what a function does, without the names that TensorFlow made up."""
    program = Program.from_library(library, entry)
    gradients = []
    for _, node in program.nodes():
        # Gradients of calls follow from what they call; their names are numbers of their own.
        if _GRADIENT in node.attr and not op_names.is_call(node.op):
            gradients.append(_gradient_key(node.attr[_GRADIENT].s.decode()))
        node.attr.pop(_GRADIENT, None)
    shapes = [(str(t.dtype), str(t.shape)) for t in (*graph.inputs, *graph.outputs)]
    return fingerprint(program, repr((shapes, gradients)).encode())


def _gradient_key(name: str) -> str:
    """Returns what is equal for custom gradients (`tf.custom_gradient`) that compute the same.

    These have a new name in every trace. They are the same if their code is, and all that their
    closures hold.
    """
    return repr(_object_key(ops.gradient_registry.lookup(name), []))


def _object_key(value: Any, seen: list[int]) -> Any:
    """Returns what is equal for equal parts of closures; unknown objects equal only themselves."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, dtypes.DType)):
        return repr(value)
    if isinstance(value, tensor_lib.Tensor) and ops.is_symbolic_tensor(value):
        return value.name, str(value.dtype), str(value.shape)
    if id(value) in seen:
        return seen.index(id(value))
    seen.append(id(value))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_object_key(item, seen) for item in value]
    if isinstance(value, dict):
        return "dict", [_object_key(item, seen) for item in value.items()]
    if isinstance(value, types.FunctionType):
        parts = (_cells(value), value.__defaults__, value.__kwdefaults__)
        return id(value.__code__), [_object_key(part, seen) for part in parts]
    return id(value)


def _cells(function: types.FunctionType) -> list[Any]:
    """Returns what a closure holds; a cell that nothing was put into counts as itself."""
    held = []
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            held.append(cell)
    return held
