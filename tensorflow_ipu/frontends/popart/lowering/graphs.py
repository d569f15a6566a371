"""`NodeLowering`: puts the nodes of a graph, and of inner graphs, into a TensorFlow function."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.compiler import source_map, trace
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import debug_info
from tensorflow_ipu.frontends.popart.errors import popart_exception, poplar_exception
from tensorflow_ipu.frontends.popart.lowering.marks import PLAIN, ModelPlacement
from tensorflow_ipu.frontends.popart.ops import (
    effects,
    elementwise,
    images,
    indexing,
    libraries,
    linear,
    losses,
    movement,
    newer,
    normalization,
    operands,
    pooling,
    random_values,
    recurrent,
    reductions,
    registry,
    subgraphs,
)
from tensorflow_ipu.frontends.popart.ops.context import Context, InnerServices, Made
from tensorflow_ipu.frontends.popart.ops.effects import runs_effects
from tensorflow_ipu.frontends.popart.ops.operands import unknown_input
from tensorflow_ipu.frontends.popart.ops.registry import RegisteredOp
from tensorflow_ipu.util.notices import warn_once

# Importing a family registers its ops; `newer` comes last, as it continues ops of the others.
_FAMILIES = (
    effects,
    elementwise,
    images,
    indexing,
    libraries,
    linear,
    losses,
    movement,
    normalization,
    pooling,
    random_values,
    recurrent,
    reductions,
    subgraphs,
    newer,
)


@dataclasses.dataclass(eq=False)
class Value:
    """Value of a tensor of a model.

    Attributes:
        tensor: The tensor of the program; None for a constant that no op has taken.
        known: Its value when the session is made, if that is known.
        is_constant: Whether that never changes.
        is_weight: Whether it is a weight whose value is not known because replicas differ.
    """

    tensor: Any = None
    known: np.ndarray | None = None
    is_constant: bool = False
    is_weight: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self._held.shape)

    @property
    def dtype(self) -> Any:
        """TensorFlow's type of it."""
        return tf.as_dtype(self._held.dtype)

    @property
    def _held(self) -> Any:
        return self.known if self.tensor is None else self.tensor


def constant(array: np.ndarray) -> Value:
    """Returns a value that is known and never changes.

    Args:
        array: the value.
    """
    return Value(None, array, True)


# Words of TensorFlow about the type of an input.
_OF_TYPES = re.compile(r"not in list of allowed values|Invalid dtype|Expected (bool|u?int\d+),")
# Where TensorFlow's text turns to its own nodes.
_OWN_NODE = re.compile(r" for '\{\{node .*", re.DOTALL)


def handled(
    kind: RegisteredOp,
    node: onnx.NodeProto,
    arguments: Sequence[Any],
    attributes: Mapping[str, Any],
    error: Exception,
) -> Any:
    """Returns the outputs of a node whose types only the compiler refuses, or raises.

    A session is made of shapes alone. So it can be made of an op that does not take a type.

    Args:
        kind: the op.
        node: the node.
        arguments: its inputs.
        attributes: its attributes.
        error: TensorFlow's error.

    Raises:
        popart_exception: If the inputs do not fit the op.
        poplar_exception: If a program is compiled of a type that the op does not take.
    """
    refused = _refused_types(arguments) if _OF_TYPES.search(str(error)) else []
    if refused and (tf.executing_eagerly() or trace.in_cluster()):
        names = " and ".join(sorted({operands.type_name(dtype) for dtype in refused}))
        text = f"{node.op_type} does not take {names}. Add a Cast to FLOAT before it."
        raise _noted(poplar_exception(text), node) from error
    if refused:
        try:
            return _as_floats(kind, arguments, attributes, refused[0])
        except (ValueError, TypeError, tf.errors.OpError, popart_exception):
            pass  # not the type alone: the first error says what it is
    said = _OWN_NODE.sub("", str(error)).rstrip(".")
    given = ", ".join(
        "none" if x is None else operands.tensor_text(x)
        for x in arguments
        if x is None or tf.is_tensor(x)
    )
    raise _noted(
        popart_exception(f"The inputs of {node.op_type} do not fit it: {said}. Received: {given}"),
        node,
    ) from error


def _noted(error: Exception, node: onnx.NodeProto) -> Exception:
    debug_info.add_note(error, node)
    return error


def _refused_types(arguments: Sequence[Any]) -> list[Any]:
    """Returns the types of inputs that are not floating-point numbers."""
    return [x.dtype for x in arguments if tf.is_tensor(x) and not x.dtype.is_floating]


def _as_floats(
    kind: RegisteredOp, arguments: Sequence[Any], attributes: Mapping[str, Any], dtype: Any
) -> list[Any]:
    """Returns the outputs of an op of float32, in the type that it does not take."""
    wide = [
        tf.cast(x, tf.float32) if tf.is_tensor(x) and x.dtype == dtype else x for x in arguments
    ]
    found = kind.compute(*wide, **attributes)
    outputs = found if isinstance(found, (list, tuple)) else [found]
    return [tf.cast(x, dtype) if x.dtype == tf.float32 else x for x in outputs]


class LoweredGraph:
    """A graph inside another one, ready to be put into the function in scope.

    Attributes:
        graph: The graph.
    """

    def __init__(self, graph: onnx.GraphProto, parent: NodeLowering) -> None:
        """Takes the graph.

        Args:
            graph: the graph.
            parent: the graph around it, whose tensors its nodes can take.
        """
        self.graph = graph
        self._parent = parent

    def __repr__(self) -> str:
        return f"LoweredGraph[{self.graph.name} {len(self.graph.node)} nodes]"

    @property
    def input_names(self) -> list[str]:
        """Names of its inputs."""
        return [value.name for value in self.graph.input]

    def around(self, name: str) -> Any:
        """Returns a tensor of the graph around it.

        Args:
            name: the tensor.
        """
        return self._parent.tensor(name)

    def __call__(self, tensors: Sequence[Any], iteration: Any = 0) -> list[Any]:
        """Puts the graph into the function in scope.

        Args:
            tensors: its inputs.
            iteration: number of the iteration, if it is in a loop: its random numbers depend on it.

        Returns:
            Its outputs, which come after all that it does.
        """
        lowering = self._lowered(tensors, iteration)
        with tf.control_dependencies(lowering.services.effects):
            return [tf.identity(lowering.tensor(value.name)) for value in self.graph.output]

    def finished(self, tensors: Sequence[Any]) -> Any:
        """Puts the graph into the function in scope, for its effects.

        Args:
            tensors: its inputs.

        Returns:
            An operation that comes after all effects.
        """
        return tf.group(*self._lowered(tensors, 0).services.effects)

    def _lowered(self, tensors: Sequence[Any], iteration: Any) -> NodeLowering:
        lowering = self._parent.child(InnerServices(self._parent.services, iteration))
        for name, tensor in zip(self.input_names, tensors):
            lowering.values[name] = tensor if isinstance(tensor, Value) else Value(tensor)
        for initializer in self.graph.initializer:
            lowering.values[initializer.name] = constant(numpy_helper.to_array(initializer))
        lowering.run(self.graph.node)
        return lowering


# Attributes that say where and how a node runs begin with this; they do not change its values.
_ANNOTATION = "__"
# Ops whose inputs have one type.
_OF_ONE_TYPE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Concat", "Fmod", "Remainder"}
)
# Elements of values that are computed on the host too, because shapes may depend on them.
_SMALL = 256


class NodeLowering:
    """Puts the nodes of a graph into the function in scope, in the order of the model.

    Attributes:
        values: What its tensors hold, by id.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        context: Context,
        schedule: ModelPlacement = PLAIN,
        parent: NodeLowering | None = None,
        knows_weights: bool = True,
    ) -> None:
        """Starts with no values.

        Args:
            opsets: versions of the domains.
            context: the interface of the session to its ops.
            schedule: where nodes run.
            parent: the graph around it, whose tensors its nodes can take.
            knows_weights: whether it knows which tensors are weights.
        """
        self.values: dict[str, Value] = {}
        self._opsets = opsets
        self._context = context
        self._schedule = schedule
        self._parent = parent
        self._knows_weights = knows_weights
        self._made: dict[str, Made] = {}
        self._nodes: list[onnx.NodeProto] = []

    def value(self, tensor_id: str) -> Value:
        """Returns the value of a tensor.

        Args:
            tensor_id: the tensor.

        Raises:
            popart_exception: If nothing was said of it.
        """
        if tensor_id in self.values:
            return self.values[tensor_id]
        if self._parent is not None:
            return self._parent.value(tensor_id)
        raise popart_exception(f"Unknown tensor '{tensor_id}': no node and no input makes it.")

    def tensor(self, tensor_id: str) -> Any:
        """Returns the value of a tensor as a tensor of the function in scope.

        Args:
            tensor_id: the tensor.
        """
        value = self.value(tensor_id)
        if value.tensor is None:
            value = dataclasses.replace(value, tensor=tf.constant(value.known))
            self.values[tensor_id] = value
        return value.tensor

    def run(self, graph: Iterable[onnx.NodeProto]) -> None:
        """Puts nodes into the function.

        Args:
            graph: the nodes, each after those that it takes tensors of.

        Raises:
            popart_exception: If an op is unknown, or its inputs do not fit it.
        """
        for node in graph:
            self._nodes.append(node)
            kind = registry.find(node.domain, node.op_type, self._version(node.domain))
            with self._place(node):
                run = self._results_with_effects if runs_effects(node) else self._results
                results = run(kind, node)
            for tensor_id, result in zip(node.output, results):
                if tensor_id in self._context.differentiated and result.is_constant:
                    result = Value(tf.constant(result.known), result.known)
                if tensor_id:
                    self.values[tensor_id] = result
                    self._made[tensor_id] = Made(node, self.tensor)

    def sources_of(self, tensor_id: str) -> list[str]:
        """Returns the tensors that the node which makes a tensor takes.

        Args:
            tensor_id: the tensor.
        """
        made = self._made.get(tensor_id)
        return [] if made is None else [name for name in made.node.input if name]

    def as_numbers(self, tensor_ids: Iterable[str]) -> NodeLowering:
        """Returns the same nodes with integers as real numbers, so that gradients flow.

        Args:
            tensor_ids: integer tensors. They are cast to float32, and so are integers made of them.

        Returns:
            A lowering with the values of these tensors, and of the nodes that depend on them.
        """
        numbers = NodeLowering(self._opsets, self._context, self._schedule, self)
        wanted = set(tensor_ids)
        for name in wanted:
            tensor = tf.cast(self.tensor(name), tf.float32)
            numbers.values[name] = Value(tensor, self.value(name).known)
        for node in self._nodes:
            numbers._run_as_numbers(node)
        return numbers

    def _run_as_numbers(self, node: onnx.NodeProto) -> None:
        """Puts a node into the function again, if it takes a number that stands for an integer."""
        if self.values.keys().isdisjoint(node.input):
            return
        if node.op_type == "Cast" and not self.value(node.output[0]).dtype.is_floating:
            self.values[node.output[0]] = self.values[node.input[0]]
            return
        if node.op_type in _OF_ONE_TYPE:
            for name in node.input:
                if not self.value(name).dtype.is_floating:
                    self.values[name] = Value(tf.cast(self.tensor(name), tf.float32))
        self.run([node])

    def _is_weight(self, tensor_id: str) -> bool:
        value = self.value(tensor_id)
        is_known = value.known is not None and not value.is_constant
        return not self._knows_weights or value.is_weight or is_known

    def _subgraph(self, graph: onnx.GraphProto) -> LoweredGraph:
        """Returns a graph that can take tensors of this one."""
        return LoweredGraph(graph, self)

    def child(self, services: Any) -> NodeLowering:
        """Returns the lowering of a graph inside this one.

        Args:
            services: seeds and effects of its ops.
        """
        context = dataclasses.replace(self._context, services=services)
        return NodeLowering(self._opsets, context, self._schedule, self)

    @property
    def services(self) -> Any:
        """Seeds and effects of the program."""
        return self._context.services

    def _results(self, kind: RegisteredOp, node: onnx.NodeProto) -> list[Value]:
        """Returns the outputs of a node."""
        attributes = _attributes(kind, node)
        if kind.takes_context:
            attributes["context"] = dataclasses.replace(
                self._context,
                node=node,
                subgraph=self._subgraph,
                is_weight=self._is_weight,
                maker=self._made.get,
            )
        inputs = [self.value(tensor_id) if tensor_id else None for tensor_id in node.input]
        if all(value is None or value.is_constant for value in inputs):
            if kind.folds:
                return [constant(v) for v in self._known_results(kind, node, inputs, attributes)]
            if inputs:
                op = f"{kind.domain or 'ai.onnx'}.{kind.type}"
                Logger("ces").trace(f"No ConstExpr implementation of {op}: the device computes it")
        tensors = [self.tensor(name) if name else None for name in node.input]
        found = _compute(kind, node, self._arguments(kind, node, tensors), attributes)
        if kind.of_shapes:
            return [constant(tf.get_static_value(tensor)) for tensor in found]
        known: Sequence[Any] = [None] * len(found)
        if kind.folds and _are_known(inputs):
            known = self._known_results(kind, node, inputs, attributes)
        return [Value(_with_gradient(kind, t), value) for t, value in zip(found, known)]

    def _results_with_effects(self, kind: RegisteredOp, node: onnx.NodeProto) -> list[Value]:
        """Returns the outputs of a node whose subgraphs have effects, which come before them."""
        with tf.control_dependencies(self.services.ordered[-1:]):
            results = self._results(kind, node)
        for result in results[:1]:
            self.services.effect(tf.identity(result.tensor).op, ordered=True)
        return results

    def _known_results(
        self,
        kind: RegisteredOp,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any],
    ) -> list[np.ndarray]:
        """Returns the outputs of a node, computed on the host."""
        with eager_context.eager_mode(), tf.device("/CPU:0"):
            arrays = [value and tf.constant(value.known) for value in inputs]
            found = _compute(kind, node, self._arguments(kind, node, arrays), attributes)
            return [tensor.numpy() for tensor in found]

    def _arguments(
        self, kind: RegisteredOp, node: onnx.NodeProto, tensors: Sequence[Any]
    ) -> list[Any]:
        """Returns the inputs of a node, known ones as arrays."""
        arguments = list(tensors)
        for position in kind.known:
            if position < len(arguments) and arguments[position] is not None:
                arguments[position] = self._known(kind, node, position)
        return arguments

    def _known(self, kind: RegisteredOp, node: onnx.NodeProto, position: int) -> Any:
        """Returns the value of an input that has to be known."""
        value = self.value(node.input[position])
        if value.known is None:
            error = popart_exception(unknown_input(kind, node, position))
            debug_info.add_note(error, node)
            raise error
        return value.known

    def _version(self, domain: str) -> int:
        return self._opsets.get("" if domain == "ai.onnx" else domain, 1)

    @contextlib.contextmanager
    def _place(self, node: onnx.NodeProto) -> Any:
        """Puts operations where the model says, with names that lead back to the node."""
        with contextlib.ExitStack() as stack:
            scope = stack.enter_context(tf.name_scope(debug_info.scope_name(node)))
            line = debug_info.line(node)
            if line is not None and not tf.executing_eagerly():
                place = source_map.SourceLocation(line.fileName, line.lineNumber, line.functionName)
                source_map.declare(tf.compat.v1.get_default_graph(), scope.rstrip("/"), place)
            stack.enter_context(self._schedule.of_node(node))
            yield


def _are_known(values: Sequence[Value | None]) -> bool:
    """Returns whether values are known and small: shapes and the like that a model computes."""
    known = [value.known for value in values if value is not None]
    return all(array is not None and array.size <= _SMALL for array in known)


def _compute(
    kind: RegisteredOp,
    node: onnx.NodeProto,
    arguments: Sequence[Any],
    attributes: Mapping[str, Any],
) -> list[Any]:
    """Returns the outputs of a node; an error has the node in a note."""
    try:
        found = kind.compute(*arguments, **attributes)
    except popart_exception as error:
        error.args = (operands.filled(str(error), node, kind.since),)
        debug_info.add_note(error, node)
        raise
    except (ValueError, TypeError, IndexError, tf.errors.OpError) as error:
        found = handled(kind, node, arguments, attributes, error)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _attributes(kind: RegisteredOp, node: onnx.NodeProto) -> dict[str, Any]:
    """Returns the attributes of a node as its op takes them.

    Raises:
        popart_exception: If there is one that it does not take.
    """
    found: dict[str, Any] = {}
    if kind.reads_node:
        return found
    for attribute in node.attribute:
        if attribute.name.startswith(_ANNOTATION) or attribute.name == "consumed_inputs":
            continue
        if attribute.name not in kind.attributes:
            _check_unknown(kind, node, attribute.name)
            continue
        value = helper.get_attribute_value(attribute)
        value = value.decode() if isinstance(value, bytes) else value
        found[kind.parameter(attribute.name)] = value
    return found


def _check_unknown(kind: RegisteredOp, node: onnx.NodeProto, name: str) -> None:
    """Refuses an attribute that changes the result of ONNX's op; others have no effect.

    Raises:
        popart_exception: If ONNX's op has the attribute.
    """
    schema = registry.schema_of(kind)
    if schema is not None and name in schema.attributes:
        raise popart_exception(
            f"The attribute {name} of {kind.type} is not supported. Attributes that are: "
            f"{', '.join(sorted(kind.attributes)) or 'none'}."
        )
    warn_once(
        "The attribute %s of %s has no effect: the op has no such attribute.",
        name,
        debug_info.named(node),
    )


def _with_gradient(kind: RegisteredOp, tensor: Any) -> Any:
    """Returns the output of an op with the gradient that PopART has."""
    return tensor if kind.gradient is GradientRule.DERIVED else tf.stop_gradient(tensor)
