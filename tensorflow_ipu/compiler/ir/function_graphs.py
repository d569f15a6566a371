"""Functions of a compiled program as graphs: inferred static shapes, trip counts of loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph, importer, tensor_util
from tensorflow.python.ops import handle_data_util

from tensorflow_ipu.compiler.ir.function_nodes import topological

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2


IDENTITY_OPS = ("Identity", "StopGradient", "PreventGradient", "Snapshot")
# Integers with few elements can be shapes, loop bounds or counters, which decide shapes and trip
# counts inside the functions they are passed to. Anything else is only data.
_LARGEST_CONSTANT = 16
_CONSTANT_DTYPES = (tf.int32, tf.int64, tf.bool)
# The CPU kernels return an empty tensor for this scratch output, whose shape TensorFlow leaves open
# because GPU kernels need room there. The engine runs the CPU kernels.
_SCRATCH_OUTPUTS = {"FusedBatchNormV3": 5}


class Binding(NamedTuple):
    """Shape and constant value of an argument of a function at one call site.

    Args:
        dtype: element type; for a variable, the variable's and not the handle's.
        shape: static shape, dimensions `None` where unknown; `None` for unknown rank.
        is_variable: whether the argument is the handle of a resource variable.
        value: value of a constant argument as bytes in C order, else `None`.
    """

    dtype: tf.DType
    shape: tuple[int | None, ...] | None
    is_variable: bool = False
    value: bytes | None = None


class FunctionGraph(NamedTuple):
    """A function imported into a graph of its own.

    Args:
        name: name of the function.
        graph: the graph, with a node for each argument.
        nodes: the function's own nodes in topological order, ties in their original order. Inputs
            are named as in a `GraphDef`.
        inputs: the tensor of each argument.
        outputs: the tensor of each result.
    """

    name: str
    graph: tf.Graph
    nodes: tuple[node_def_pb2.NodeDef, ...]
    inputs: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]


class _Registered(NamedTuple):
    """A function in the form that TensorFlow's conversion to a graph expects."""

    cached_definition: function_pb2.FunctionDef


class FunctionImporter:
    """Importer of a library's functions, with a cache by combination of bindings.

    Args:
        library: the functions; all functions they name have to be in it.
    """

    def __init__(self, library: function_pb2.FunctionDefLibrary) -> None:
        self._definitions = {f.signature.name: f for f in library.function}
        self._imported: dict[tuple[str, tuple[Binding, ...]], FunctionGraph] = {}
        self._tensors: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        # The graph in which TensorFlow's conversion looks functions up. It only reads definitions;
        # adding the functions for good would take as long as importing them.
        self._scratch = tf.Graph()
        self._scratch._functions.update(
            {name: _Registered(definition) for name, definition in self._definitions.items()}
        )

    def definition(self, name: str) -> function_pb2.FunctionDef:
        """Returns the definition of a function.

        Raises:
            ValueError: the library has no function of this name.
        """
        if name not in self._definitions:
            raise ValueError(
                f"Expected a function of the program's library, received {name!r}. The library "
                f"has: {sorted(self._definitions)}. Add the definition to the library."
            )
        return self._definitions[name]

    def __contains__(self, name: str) -> bool:
        """Returns whether the library has a function of this name."""
        return name in self._definitions

    def tensors(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the names of a function's arguments and results, as tensors of its graph.

        Raises:
            ValueError: the library has no function of this name.
        """
        if name not in self._tensors:
            self._graph_def(self.definition(name))
        return self._tensors[name]

    def forget_graphs(self) -> None:
        """Drops the imported graphs; keeps the names of arguments and results."""
        self._imported.clear()

    def graph(self, name: str, bindings: Sequence[Binding]) -> FunctionGraph:
        """Imports a function.

        Args:
            name: name of the function.
            bindings: one for each argument, in order.

        Returns:
            The graph, with shapes inferred by TensorFlow from the shapes of the arguments.

        Raises:
            ValueError: unknown function, wrong number of bindings, or shapes that contradict each
                other.
        """
        key = (name, tuple(bindings))
        if key not in self._imported:
            self._imported[key] = self._import(self.definition(name), bindings)
        return self._imported[key]

    def _import(
        self, definition: function_pb2.FunctionDef, bindings: Sequence[Binding]
    ) -> FunctionGraph:
        """Imports a function that has not been imported with these bindings yet."""
        name = definition.signature.name
        arguments = definition.signature.input_arg
        if len(bindings) != len(arguments):
            raise ValueError(
                f"Expected {len(arguments)} arguments for function {name!r}, received "
                f"{len(bindings)}. Describe each argument of the function, captures included."
            )
        graph_def = self._graph_def(definition)
        for node, binding in zip(graph_def.node, bindings):
            _bind(node, binding)
        graph_def.ClearField("library")
        graph_def.library.function.extend(self._called_by(definition))
        graph = tf.Graph()
        with graph.as_default():
            importer.import_graph_def_for_function(graph_def, name="")
        _set_scratch_shapes(graph, graph_def)
        inputs, outputs = self._tensors[name]
        return FunctionGraph(
            name,
            graph,
            topological(graph_def.node[len(bindings) :]),
            tuple(map(graph.get_tensor_by_name, inputs)),
            tuple(map(graph.get_tensor_by_name, outputs)),
        )

    def _graph_def(self, definition: function_pb2.FunctionDef) -> graph_pb2.GraphDef:
        """Converts a function, and notes the names of its arguments and results."""
        with self._scratch.as_default():
            graph_def, names = function_def_to_graph.function_def_to_graph_def(definition)
        signature = definition.signature
        self._tensors[signature.name] = (
            tuple(names[argument.name] for argument in signature.input_arg),
            tuple(names[definition.ret[result.name]] for result in signature.output_arg),
        )
        return graph_def

    def _called_by(self, definition: function_pb2.FunctionDef) -> list[function_pb2.FunctionDef]:
        """Returns the functions that plain calls reach: shapes pass through them."""
        found: dict[str, function_pb2.FunctionDef] = {}
        pending = [definition]
        while pending:
            for node in pending.pop().node_def:
                called = node.attr["f"].func.name if "f" in node.attr else node.op
                if called in self._definitions and called not in found:
                    found[called] = self._definitions[called]
                    pending.append(found[called])
        return list(found.values())


def binding_of(tensor: tf.Tensor, value: np.ndarray | None = None) -> Binding:
    """Returns the binding of a callee's argument, from the tensor that the caller passes.

    Args:
        tensor: the tensor in the caller's graph.
        value: its value, when it is a constant worth telling.

    Returns:
        The binding.
    """
    if tensor.dtype == tf.resource:
        handle = handle_data_util.get_resource_handle_data(tensor)
        if not handle.shape_and_type:
            return Binding(tf.resource, ())
        held = handle.shape_and_type[0]
        return Binding(tf.as_dtype(held.dtype), dimensions(tf.TensorShape(held.shape)), True)
    data = None if value is None else np.asarray(value, tensor.dtype.as_numpy_dtype).tobytes()
    return Binding(tensor.dtype, dimensions(tensor.shape), value=data)


def constant_value(tensor: tf.Tensor) -> np.ndarray | None:
    """Returns the value of a small integer or boolean tensor that is constant, else `None`."""
    if tensor.dtype not in _CONSTANT_DTYPES or not tensor.shape.is_fully_defined():
        return None
    if tensor.shape.num_elements() > _LARGEST_CONSTANT:
        return None
    return tensor_util.try_evaluate_constant(tensor)


def through_identities(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor that a chain of identity ops started from."""
    while tensor.op.type in IDENTITY_OPS:
        tensor = tensor.op.inputs[0]
    return tensor


def invariant_arguments(definition: function_pb2.FunctionDef) -> set[int]:
    """Returns the indices of a loop body's arguments that it returns unchanged."""
    arguments = {argument.name for argument in definition.signature.input_arg}
    identities = {n.name: n.input[0] for n in definition.node_def if n.op in IDENTITY_OPS}
    names = [argument.name for argument in definition.signature.input_arg]
    found = set()
    for index, result in enumerate(definition.signature.output_arg):
        source = definition.ret[result.name]
        while source not in arguments and source.split(":")[0] in identities:
            source = identities[source.split(":")[0]]
        if index < len(names) and source == names[index]:
            found.add(index)
    return found


def dimensions(shape: tf.TensorShape) -> tuple[int | None, ...] | None:
    """Returns a shape as a hashable tuple, `None` for unknown rank."""
    return None if shape.rank is None else tuple(shape.as_list())


def _bind(node: node_def_pb2.NodeDef, binding: Binding) -> None:
    """Replaces a placeholder by a node with the argument's constant value or variable's shape.

    A variable becomes a variable handle and a constant a constant, because TensorFlow's shape
    functions read these.
    """
    if binding.dtype == tf.resource:
        return
    node.attr.clear()
    node.attr["dtype"].type = binding.dtype.as_datatype_enum
    if binding.value is not None:
        node.op = "Const"
        value = np.frombuffer(binding.value, binding.dtype.as_numpy_dtype)
        proto = tf.make_tensor_proto(value, binding.dtype, shape=binding.shape)
        node.attr["value"].tensor.CopyFrom(proto)
        return
    node.op = "VarHandleOp" if binding.is_variable else "Placeholder"
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(binding.shape).as_proto())


def _set_scratch_shapes(graph: tf.Graph, graph_def: graph_pb2.GraphDef) -> None:
    """Sets the shapes of the scratch outputs of CPU kernels."""
    for node in graph_def.node:
        if node.op in _SCRATCH_OUTPUTS:
            scratch = graph.get_operation_by_name(node.name).outputs[_SCRATCH_OUTPUTS[node.op]]
            for tensor in (scratch, *_copies(scratch)):
                tensor.set_shape([0])


def _copies(tensor: tf.Tensor) -> list[tf.Tensor]:
    """Returns the results that have the shape of their op's input, where inference lost it."""
    return [op.outputs[0] for op in tensor.consumers() if op.type in ("ZerosLike", "Identity")]


# --- Trip counts of loops whose condition tells ---

# (comparison, counter on the right) -> the same with the counter on the left.
_MIRRORED = {
    "Less": "Greater",
    "LessEqual": "GreaterEqual",
    "Greater": "Less",
    "GreaterEqual": "LessEqual",
    "NotEqual": "NotEqual",
}


@dataclass(frozen=True)
class Trips:
    """The number of iterations of a loop, and the last values of its counters.

    Args:
        count: number of iterations; `None` when it depends on data or is not understood.
        counters: final values of the loop's counters by index of the loop variable. Empty unless
            the count is known.
    """

    count: int | None
    counters: dict[int, int]


class _Counter(NamedTuple):
    """A loop variable that changes by a constant in every iteration."""

    initial: int
    step: int


def trips(
    condition: FunctionGraph, body: FunctionGraph, initial: Sequence[np.ndarray | None]
) -> Trips:
    """Counts the iterations of a loop.

    Understood are conditions that compare counters with constants, joined by "and". `tf.range`,
    `tf.while_loop` with a bound, `maximum_iterations` and their gradients make such conditions.

    Args:
        condition: the condition's graph, loop-invariant constants bound as constants.
        body: the body's graph, bound likewise.
        initial: constant initial values of the loop variables, `None` where unknown.

    Returns:
        The number of iterations and the final counters.
    """
    limits = [_limit(clause, condition, body, initial) for clause in _clauses(condition.outputs[0])]
    if any(limit is None for limit in limits):
        return Trips(None, {})
    count = min(limit for limit in limits if limit is not None)
    if math.isinf(count):
        return Trips(None, {})
    counters = {}
    for index in range(len(body.inputs)):
        counter = _counter(index, body, initial)
        if counter is not None:
            counters[index] = counter.initial + counter.step * int(count)
    return Trips(int(count), counters)


def _clauses(predicate: tf.Tensor) -> list[tf.Tensor]:
    """Returns the parts of a predicate that all have to hold."""
    predicate = through_identities(predicate)
    if predicate.op.type != "LogicalAnd":
        return [predicate]
    return [clause for part in predicate.op.inputs for clause in _clauses(part)]


def _limit(
    clause: tf.Tensor,
    condition: FunctionGraph,
    body: FunctionGraph,
    initial: Sequence[np.ndarray | None],
) -> float | None:
    """Returns the iterations that a clause allows: infinity for all, `None` if unknown."""
    fixed = constant_value(clause)
    if fixed is not None:
        return math.inf if fixed else 0
    comparison = clause.op.type
    if comparison not in _MIRRORED:
        return None
    left, right = (through_identities(side) for side in clause.op.inputs)
    bound = constant_value(right)
    if bound is None:
        left, right, comparison = right, left, _MIRRORED[comparison]
        bound = constant_value(right)
    index = _argument_index(left, condition)
    counter = None if index is None else _counter(index, body, initial)
    if bound is None or counter is None:
        return None
    return _iterations(comparison, counter, int(bound))


def _argument_index(tensor: tf.Tensor, function: FunctionGraph) -> int | None:
    """Returns the index of the argument that is a tensor; None for other tensors."""
    for index, argument in enumerate(function.inputs):
        if argument is tensor or argument.name == tensor.name:
            return index
    return None


def _counter(
    index: int, body: FunctionGraph, initial: Sequence[np.ndarray | None]
) -> _Counter | None:
    """Returns the counter of a loop variable by index; None for other loop variables."""
    start = initial[index]
    if start is None or start.ndim or not np.issubdtype(start.dtype, np.integer):
        return None
    update = through_identities(body.outputs[index])
    if update.op.type not in ("Add", "AddV2", "Sub"):
        return None
    left, right = (through_identities(side) for side in update.op.inputs)
    if update.op.type != "Sub" and left.name != body.inputs[index].name:
        left, right = right, left
    step = constant_value(right)
    if step is None or left.name != body.inputs[index].name:
        return None
    return _Counter(int(start), -int(step) if update.op.type == "Sub" else int(step))


def _iterations(comparison: str, counter: _Counter, bound: int) -> float:
    """Returns the iterations until `counter <comparison> bound` first fails.

    With start s, step d and bound b: ceil((b - s) / d) for "less" and a rising counter; the other
    comparisons are brought to that form.
    """
    start, step = counter
    if comparison == "NotEqual":
        distance = bound - start
        if step and distance % step == 0 and distance // step >= 0:
            return distance // step
        return 0 if distance == 0 else math.inf
    if comparison in ("Greater", "GreaterEqual"):
        start, step, bound = -start, -step, -bound
    if comparison in ("LessEqual", "GreaterEqual"):
        bound += 1
    if start >= bound:
        return 0
    return -(-(bound - start) // step) if step > 0 else math.inf
