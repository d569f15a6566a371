"""Outlined functions, compiled once and called often: the module `ipu.functional_ops`."""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import dtypes, op_def_registry, ops, tensor_spec
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import current_scope, trace
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.fingerprint import fingerprint
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.compiler.ir.program import OUTLINED_PREFIX, Program, called_functions
from tensorflow_ipu.ops import grad_util_ops
from tensorflow_ipu.util import op_names

__all__ = ["function", "outlined_function"]

# --- Equal functions ---

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
    """Returns the program's function for a traced one: an equal one if there is one.

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
    """Returns whether a node has state. Calls do not count: their functions are checked."""
    if node.op in _SHAREABLE or called_functions(node):
        return False
    definition = op_def_registry.get(node.op)
    return definition is not None and definition.is_stateful


def _digest(
    library: function_pb2.FunctionDefLibrary, entry: str, graph: func_graph_lib.FuncGraph
) -> str:
    """Hashes a function's ops without the names that TensorFlow made up."""
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
    """Returns a key of a custom gradient (`tf.custom_gradient`), equal for equal code.

    These have a new name in every trace. They are the same if their code is, and all that their
    closures hold.
    """
    return repr(_object_key(ops.gradient_registry.lookup(name), []))


def _object_key(value: Any, seen: list[int]) -> Any:
    """Returns a key of a part of a closure; unknown objects equal only themselves."""
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
    """Returns the contents of a closure's cells; an empty cell stands for itself."""
    held = []
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            held.append(cell)
    return held


tensorflow_hooks.install()


def outlined_function(
    func: Callable[..., Any] | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Any:
    """Makes a Python function that a program has once, however often it calls it.

    To be used as a decorator, with or without arguments. Each call runs the Python function, so
    calls may differ; those that come to the same operations on tensors of the same types and shapes
    share one function of the program, and so do their gradients. A function with state (random
    numbers, feeds, updates of variables, printing) is not shared: each call has its own. Outside
    of a program the Python function is simply called.

    Variables made inside are shared between calls, or not, as variable scopes say. The function may
    use tensors and variables from outside; calls that use different ones share a function too.

    Args:
        func: takes tensors as positional arguments, and returns tensors: one, or a structure of
            them. Operations among the results run with the function and are left out of what a call
            returns; None stays None.
        unique_sharding: whether the arguments are brought to the shard that is in scope before the
            function is called. Values do not depend on it.
        keep_input_layouts: how the arguments are laid out in memory. It has no effect here.
        name: name for the function; by default `func`'s name.

    Returns:
        The function; without `func`, a decorator.

    Raises:
        TypeError: If an argument is of another type.
        ValueError: When it is called, if it returns no tensor.
    """
    if not isinstance(unique_sharding, bool) or not isinstance(
        keep_input_layouts, (bool, type(None))
    ):
        raise TypeError(
            "unique_sharding must be a bool, and keep_input_layouts a bool or None. Received: "
            f"unique_sharding={unique_sharding!r}, keep_input_layouts={keep_input_layouts!r}"
        )
    if func is None:
        return functools.partial(
            outlined_function,
            unique_sharding=unique_sharding,
            keep_input_layouts=keep_input_layouts,
            name=name,
        )
    if not callable(func):
        raise TypeError(f"func must be a function, or None for a decorator. Received: {func!r}")
    outlined = _Outlined(func, unique_sharding, name)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return outlined(args, kwargs)

    return call


# What older programs call it.
function = outlined_function


class _Outlined:
    """A Python function with its options."""

    def __init__(self, func: Callable[..., Any], unique_sharding: bool, name: str | None) -> None:
        self._func = func
        self._unique_sharding = unique_sharding
        self._name = name or trace.cluster_name(func) or "outlined_function"

    def __call__(self, args: Sequence[Any], kwargs: Any) -> Any:
        """Calls the function with tensors."""
        if kwargs:
            raise TypeError(
                f"The outlined function {self._name} takes positional arguments only. Received "
                f"the keyword arguments: {', '.join(kwargs)}. Pass tensors by position, and bind "
                "what is not a tensor before, for example with functools.partial."
            )
        with ops.name_scope(self._name):
            inputs = [self._argument(value) for value in args]
            results = _Results(self._name)
            if context.executing_eagerly() or not trace.in_cluster():
                return results.pack(results.take(self._func(*inputs)))
            return results.pack(self._call(inputs, results))

    def _argument(self, value: Any) -> tensor_lib.Tensor:
        try:
            tensor = ops.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"The arguments of the outlined function {self._name} must be tensors, or convert "
                f"to them. Received: {value!r}. Bind it before, for example with functools.partial."
            ) from error
        # A copy belongs to the shard in scope.
        return array_ops.identity(tensor) if self._unique_sharding else tensor

    def _call(self, inputs: list[tensor_lib.Tensor], results: _Results) -> list[tensor_lib.Tensor]:
        """Traces the function and calls it, or one like it that the program has."""
        outer = ops.get_default_graph()
        graph = self._trace(inputs, results, outer)
        captured = [
            *graph.external_captures,
            *nest.flatten([value() for value in graph.deferred_external_captures]),
        ]
        body = body_of(graph, outer)
        outputs: Any = body._call_flat(inputs, [outer.capture(value) for value in captured])
        returned = len(outputs) - sum(map(len, results.captured.values()))
        grad_util_ops.come_out(results.captured, list(outputs)[returned:])
        return list(outputs)[:returned]

    def _trace(
        self, inputs: list[tensor_lib.Tensor], results: _Results, outer: ops.Graph
    ) -> func_graph_lib.FuncGraph:
        def build(*placeholders: tensor_lib.Tensor) -> list[tensor_lib.Tensor]:
            graph = ops.get_default_graph()
            current_scope.inherit_attributes(graph, outer)
            with grad_util_ops.outlined(graph, inputs) as results.captured:
                tensors = results.take(tensorflow_hooks.converted(self._func)(*placeholders))
            return [*tensors, *itertools.chain(*results.captured.values())]

        return func_graph_lib.func_graph_from_py_func(
            self._name,
            build,
            [tensor_spec.TensorSpec(value.shape, value.dtype) for value in inputs],
            {},
            add_control_dependencies=outer._add_control_dependencies,
        )


class _Results:
    """The structure of a function's results.

    Attributes:
        captured: Gradients that the function has captured, by tag.
    """

    def __init__(self, name: str) -> None:
        self.captured: dict[str, list[Any]] = {}
        self._name = name
        self._structure: Any = None

    def take(self, returned: Any) -> list[tensor_lib.Tensor]:
        """Returns the tensors among the results of a function; its operations run before them."""
        if isinstance(returned, (list, tuple)) and not hasattr(returned, "_fields"):
            self._structure = type(returned)(
                value for value in returned if not isinstance(value, ops.Operation)
            )
        else:
            self._structure = returned
        operations = [v for v in nest.flatten(returned) if isinstance(v, ops.Operation)]
        with ops.control_dependencies(operations):
            tensors = [
                array_ops.identity(value) if operations else self._tensor(value)
                for value in nest.flatten(self._structure)
                if _is_value(value)
            ]
        if not tensors:
            raise ValueError(
                f"The outlined function {self._name} must return at least one tensor. Received: "
                f"{returned!r}"
            )
        return tensors

    def _tensor(self, value: Any) -> tensor_lib.Tensor:
        try:
            return ops.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"The outlined function {self._name} must return tensors, or values that convert "
                f"to them. Received: {value!r}"
            ) from error

    def pack(self, tensors: Sequence[tensor_lib.Tensor]) -> Any:
        """Puts tensors in the places of those that `take` returned."""
        following = iter(tensors)
        return nest.map_structure(
            lambda value: next(following) if _is_value(value) else None, self._structure
        )


def _is_value(value: Any) -> bool:
    return value is not None and not isinstance(value, ops.Operation)
