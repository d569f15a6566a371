"""`Lowering`: puts the nodes of one graph into the TensorFlow function that is being built."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.compiler.sources import frames, source_map
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart import ops  # noqa: F401 - fills the table
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import nodes, refusals
from tensorflow_ipu.frontends.popart.lowering.schedules import PLAIN, Schedule
from tensorflow_ipu.frontends.popart.lowering.subgraphs import LoweredGraph
from tensorflow_ipu.frontends.popart.lowering.values import Value, constant
from tensorflow_ipu.frontends.popart.ops import kinds, texts
from tensorflow_ipu.frontends.popart.ops.effects import runs_effects
from tensorflow_ipu.frontends.popart.ops.kinds import Context, Gradient, Made, OpKind
from tensorflow_ipu.frontends.popart.ops.unknown_inputs import unknown_input
from tensorflow_ipu.util.notices import warn_once

# Attributes that say where and how a node runs begin with this; they do not change its values.
_ANNOTATION = "__"
# Ops whose inputs have one type.
_OF_ONE_TYPE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Concat", "Fmod", "Remainder"}
)
# Elements of values that are computed on the host too, because shapes may depend on them.
_SMALL = 256


class Lowering:
    """Puts the nodes of a graph into the function in scope, in the order of the model.

    Attributes:
        values: What its tensors hold, by id.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        context: Context,
        schedule: Schedule = PLAIN,
        parent: Lowering | None = None,
        knows_weights: bool = True,
    ) -> None:
        """Starts with no values.

        Args:
            opsets: versions of the domains.
            context: what ops ask of the session.
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
        """Returns what a tensor holds.

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
        """Returns what a tensor holds as a tensor of the function in scope.

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
            kind = kinds.find(node.domain, node.op_type, self._version(node.domain))
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

    def as_numbers(self, tensor_ids: Iterable[str]) -> Lowering:
        """Returns the same nodes with integers as real numbers, so that gradients flow.

        Args:
            tensor_ids: integer tensors. They are cast to float32, and so are integers made of them.

        Returns:
            A lowering whose values are those of these tensors and of what nodes make of them.
        """
        numbers = Lowering(self._opsets, self._context, self._schedule, self)
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

    def child(self, services: Any) -> Lowering:
        """Returns what puts a graph inside this one into a program.

        Args:
            services: what its ops get from the program.
        """
        context = dataclasses.replace(self._context, services=services)
        return Lowering(self._opsets, context, self._schedule, self)

    @property
    def services(self) -> Any:
        """What ops get from the program."""
        return self._context.services

    def _results(self, kind: OpKind, node: onnx.NodeProto) -> list[Value]:
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

    def _results_with_effects(self, kind: OpKind, node: onnx.NodeProto) -> list[Value]:
        """Returns the outputs of a node whose subgraphs have effects, which come before them."""
        with tf.control_dependencies(self.services.ordered[-1:]):
            results = self._results(kind, node)
        for result in results[:1]:
            self.services.effect(tf.identity(result.tensor).op, ordered=True)
        return results

    def _known_results(
        self,
        kind: OpKind,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any],
    ) -> list[np.ndarray]:
        """Returns the outputs of a node, computed on the host."""
        with eager_context.eager_mode(), tf.device("/CPU:0"):
            arrays = [value and tf.constant(value.known) for value in inputs]
            found = _compute(kind, node, self._arguments(kind, node, arrays), attributes)
            return [tensor.numpy() for tensor in found]

    def _arguments(self, kind: OpKind, node: onnx.NodeProto, tensors: Sequence[Any]) -> list[Any]:
        """Returns the inputs of a node, known ones as arrays."""
        arguments = list(tensors)
        for position in kind.known:
            if position < len(arguments) and arguments[position] is not None:
                arguments[position] = self._known(kind, node, position)
        return arguments

    def _known(self, kind: OpKind, node: onnx.NodeProto, position: int) -> Any:
        """Returns the value of an input that has to be known."""
        value = self.value(node.input[position])
        if value.known is None:
            error = popart_exception(unknown_input(kind, node, position))
            nodes.add_note(error, node)
            raise error
        return value.known

    def _version(self, domain: str) -> int:
        return self._opsets.get("" if domain == "ai.onnx" else domain, 1)

    @contextlib.contextmanager
    def _place(self, node: onnx.NodeProto) -> Any:
        """Puts operations where the model says, with names that lead back to the node."""
        with contextlib.ExitStack() as stack:
            scope = stack.enter_context(tf.name_scope(nodes.scope_name(node)))
            line = nodes.line(node)
            if line is not None and not tf.executing_eagerly():
                place = frames.SourceLocation(line.fileName, line.lineNumber, line.functionName)
                source_map.declare(tf.compat.v1.get_default_graph(), scope.rstrip("/"), place)
            stack.enter_context(self._schedule.of_node(node))
            yield


def _are_known(values: Sequence[Value | None]) -> bool:
    """Returns whether values are known and small: shapes and the like that a model computes."""
    known = [value.known for value in values if value is not None]
    return all(array is not None and array.size <= _SMALL for array in known)


def _compute(
    kind: OpKind, node: onnx.NodeProto, arguments: Sequence[Any], attributes: Mapping[str, Any]
) -> list[Any]:
    """Returns the outputs of a node; an error has the node in a note."""
    try:
        found = kind.compute(*arguments, **attributes)
    except popart_exception as error:
        error.args = (texts.filled(str(error), node, kind.since),)
        nodes.add_note(error, node)
        raise
    except (ValueError, TypeError, IndexError, tf.errors.OpError) as error:
        found = refusals.handled(kind, node, arguments, attributes, error)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _attributes(kind: OpKind, node: onnx.NodeProto) -> dict[str, Any]:
    """Returns the attributes of a node as its op takes them.

    Raises:
        popart_exception: If there is one that it does not take.
    """
    found = {}
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


def _check_unknown(kind: OpKind, node: onnx.NodeProto, name: str) -> None:
    """Refuses an attribute that changes the result of ONNX's op; others have no effect.

    Raises:
        popart_exception: If ONNX's op has the attribute.
    """
    schema = kinds.schema_of(kind)
    if schema is not None and name in schema.attributes:
        raise popart_exception(
            f"The attribute {name} of {kind.type} is not supported. Attributes that are: "
            f"{', '.join(sorted(kind.attributes)) or 'none'}."
        )
    warn_once(
        "The attribute %s of %s has no effect: the op has no such attribute.",
        name,
        nodes.named(node),
    )


def _with_gradient(kind: OpKind, tensor: Any) -> Any:
    """Returns the output of an op with the gradient that PopART has."""
    return tensor if kind.gradient is Gradient.DERIVED else tf.stop_gradient(tensor)
