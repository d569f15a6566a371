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

from tensorflow_ipu.compiler.sources import declared, frames
from tensorflow_ipu.frontends.popart import ops  # noqa: F401 - fills the table
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import nodes
from tensorflow_ipu.frontends.popart.lowering.schedules import PLAIN, Schedule
from tensorflow_ipu.frontends.popart.lowering.subgraphs import LoweredGraph
from tensorflow_ipu.frontends.popart.lowering.values import Value, constant
from tensorflow_ipu.frontends.popart.ops import kinds
from tensorflow_ipu.frontends.popart.ops.kinds import Context, Gradient, Made, OpKind

# Attributes that say where and how a node runs begin with this; they do not change its values.
_ANNOTATION = "__"
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
            kind = kinds.find(node.domain, node.op_type, self._version(node.domain))
            with self._place(node):
                results = self._results(kind, node)
            for tensor_id, result in zip(node.output, results):
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
        if kind.folds and all(value is None or value.is_constant for value in inputs):
            return [constant(v) for v in self._known_results(kind, node, inputs, attributes)]
        tensors = [self.tensor(name) if name else None for name in node.input]
        found = _compute(kind, node, self._arguments(kind, node, tensors), attributes)
        if kind.of_shapes:
            return [constant(tf.get_static_value(tensor)) for tensor in found]
        known: Sequence[Any] = [None] * len(found)
        if kind.folds and _are_known(inputs):
            known = self._known_results(kind, node, inputs, attributes)
        return [Value(_with_gradient(kind, t), value) for t, value in zip(found, known)]

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
                arguments[position] = self._known(node, position)
        return arguments

    def _known(self, node: onnx.NodeProto, position: int) -> Any:
        """Returns the value of an input that has to be known."""
        value = self.value(node.input[position])
        if value.known is None and node.op_type == "Clip":
            raise popart_exception(
                "Clip currently only supports constant min/max parameters. Make "
                f"'{node.input[position]}' a constant ({nodes.named(node)})."
            )
        if value.known is None:
            raise popart_exception(
                f"Need the value of the {node.op_type} input '{node.input[position]}' to determine "
                "the output shape, but it has no data when the session is made. Make it a constant "
                f"({nodes.named(node)})."
            )
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
                declared.declare(tf.compat.v1.get_default_graph(), scope.rstrip("/"), place)
            stack.enter_context(self._schedule.of_node(node))
            yield


def _are_known(values: Sequence[Value | None]) -> bool:
    """Returns whether values are known and small: shapes and the like that a model computes."""
    known = [value.known for value in values if value is not None]
    return all(array is not None and array.size <= _SMALL for array in known)


def _compute(
    kind: OpKind, node: onnx.NodeProto, arguments: Sequence[Any], attributes: Mapping[str, Any]
) -> list[Any]:
    """Returns the outputs of a node; an error of TensorFlow's names the node."""
    try:
        found = kind.compute(*arguments, **attributes)
    except popart_exception as error:
        if "(the node " in str(error):
            raise
        raise type(error)(f"{error} ({nodes.named(node)})") from error
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise popart_exception(
            f"The inputs of {nodes.named(node)} do not fit it: {error}"
        ) from error
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
            raise popart_exception(
                f"The attribute {attribute.name} of {nodes.named(node)} is not supported. "
                f"Attributes of {kind.type}: {', '.join(sorted(kind.attributes)) or 'none'}."
            )
        value = helper.get_attribute_value(attribute)
        value = value.decode() if isinstance(value, bytes) else value
        found[kind.parameter(attribute.name)] = value
    return found


def _with_gradient(kind: OpKind, tensor: Any) -> Any:
    """Returns the output of an op with the gradient that PopART has."""
    return tensor if kind.gradient is Gradient.DERIVED else tf.stop_gradient(tensor)
