"""`ModelGraph`: one graph under construction; its names, scopes, shapes and types."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, shape_inference

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import windows

# --- The graph ---

ONNX_DOMAIN, GRAPHCORE_DOMAIN = "", "ai.graphcore"


DEFAULT_GRAPHCORE_OPSET = 1


# The oldest opset of ONNX whose models have the version 4 of the format.
_OPSET_OF_VERSION_4 = 9


_names = itertools.count()


class ModelGraph:
    """One graph of a model that is being built.

    Attributes:
        proto: The graph.
        parent: The graph that it is a subgraph of; None for the main graph.
        opsets: Versions by domain of the nodes that it has.
        metadata: What the model says besides, by key.
        scopes: Name scopes that are open.
        attributes: Attributes that nodes get, by name; the last one holds.
    """

    def __init__(self, parent: ModelGraph | None = None) -> None:
        """Makes an empty graph.

        Args:
            parent: the graph that it is a subgraph of.
        """
        self.proto = onnx.GraphProto(name=f"BuilderGraph_{next(_names)}")
        self.parent = parent
        self.children: list[ModelGraph] = []
        self.opsets: dict[str, int] = {}
        self.metadata: dict[str, str] = parent.metadata if parent else {}
        self.scopes: list[str] = []
        self.attributes: dict[str, list[Any]] = {}
        self._producers: dict[str, onnx.NodeProto] = {}
        self._ids: set[str] = set()
        if parent is not None:
            parent.children.append(self)

    def load(self, model: onnx.ModelProto) -> None:
        """Starts from a model.

        Args:
            model: the model, which is copied.
        """
        self.proto.CopyFrom(model.graph)
        self.opsets = {opset.domain: opset.version for opset in model.opset_import}
        self.metadata.update({entry.key: entry.value for entry in model.metadata_props})
        self._ids.update(value.name for value in self.proto.input)
        self._ids.update(tensor.name for tensor in self.proto.initializer)
        for node in self.proto.node:
            self._note(node)

    def model(self) -> onnx.ModelProto:
        """Returns a model with this graph as its main graph."""
        opsets = dict(self.opsets)
        for child in self.children:
            opsets.update(child.model_opsets())
        version = 4 if opsets.get(ONNX_DOMAIN, _OPSET_OF_VERSION_4) >= _OPSET_OF_VERSION_4 else 3
        model = onnx.ModelProto(ir_version=version, producer_name="popart")
        model.graph.CopyFrom(self.proto)
        for domain, number in opsets.items():
            model.opset_import.add(domain=domain, version=number)
        for key, value in self.metadata.items():
            model.metadata_props.add(key=key, value=value)
        return model

    def model_opsets(self) -> dict[str, int]:
        """Returns the versions by domain of all nodes, also in subgraphs."""
        found = dict(self.opsets)
        for child in self.children:
            found.update(child.model_opsets())
        return found

    def use_opset(self, domain: str, version: int) -> None:
        """Notes that a node of an opset is added.

        Args:
            domain: the domain.
            version: the version.

        Raises:
            popart_exception: If there are nodes of another version.
        """
        known = self.opsets.setdefault(domain, version)
        if known != version:
            raise popart_exception(
                f"Invalid opset {version} used to add an operation. Opset for domain "
                f"{domain or 'ai.onnx'} already defined as {known}."
            )

    def scoped(self, name: str) -> str:
        """Returns a name with the open scopes before it."""
        return "/".join([*self.scopes, name])

    def unique(self, name: str) -> str:
        """Returns an id for a tensor, made of a name, and keeps it.

        Args:
            name: the name, without scopes.
        """
        wanted = found = self.scoped(name)
        counter = itertools.count(1)
        while self._is_taken(found):
            found = f"{wanted}/{next(counter)}"
        self._ids.add(found)
        return found

    def take(self, tensor_id: str) -> None:
        """Keeps an id that a tensor of this graph has."""
        self._ids.add(tensor_id)

    def knows(self, tensor_id: str) -> bool:
        """Returns whether this graph or one around it has a tensor."""
        return tensor_id in self._ids or (self.parent is not None and self.parent.knows(tensor_id))

    def known_ids(self) -> list[str]:
        """Returns the ids of all tensors that nodes can take."""
        around = self.parent.known_ids() if self.parent else []
        return sorted({*around, *self._ids})

    def add_node(
        self,
        type_: str,
        domain: str,
        inputs: Sequence[str],
        outputs: int,
        attributes: Mapping[str, Any],
        name: str,
    ) -> list[str]:
        """Adds a node.

        Args:
            type_: its op.
            domain: the domain of the op.
            inputs: ids of its inputs.
            outputs: how many outputs it has.
            attributes: its attributes.
            name: its name, without scopes.

        Returns:
            Ids of its outputs.

        Raises:
            popart_exception: If an input is no tensor.
        """
        self.check_known(inputs)
        ids = [self.unique(f"{type_}:{position}") for position in range(outputs)]
        node = self.proto.node.add(op_type=type_, domain=domain, input=inputs, output=ids)
        if name or self.scopes:
            node.name = self.scoped(name or type_)
        for key, value in attributes.items():
            node.attribute.append(make_attribute(key, value))
        for key, values in self.attributes.items():
            if values and not any(attribute.name == key for attribute in node.attribute):
                node.attribute.append(make_attribute(key, values[-1]))
        self._note(node)
        return ids

    def remove_last_node(self) -> None:
        """Takes back the node that was added last."""
        node = self.proto.node.pop()
        for tensor_id in node.output:
            self._producers.pop(tensor_id)
            self._ids.discard(tensor_id)

    def check_known(self, inputs: Iterable[str]) -> None:
        """Refuses inputs that are no tensors.

        Args:
            inputs: their ids; "" stands for an optional one that is left out.

        Raises:
            popart_exception: If there is no such tensor.
        """
        for tensor_id in inputs:
            if tensor_id and not self.knows(tensor_id):
                known = self.known_ids()
                said = f"valid tensors are {', '.join(known)}" if known else ""
                raise popart_exception(
                    f"Unknown tensor '{tensor_id}' ({said or 'there are no valid tensors yet'})."
                )

    def producer(self, tensor_id: str) -> onnx.NodeProto | None:
        """Returns the node that makes a tensor; None if no node of this graph does."""
        return self._producers.get(tensor_id)

    def node_of(self, outputs: Iterable[str]) -> onnx.NodeProto:
        """Returns the node that has exactly these outputs.

        Args:
            outputs: ids of all its outputs.

        Raises:
            popart_exception: If there is none.
        """
        wanted = {outputs} if isinstance(outputs, str) else set(outputs)
        node = self._producers.get(next(iter(wanted), ""))
        if node is None or {name for name in node.output if name} != wanted:
            raise popart_exception(
                f"Builder: Could not find a node with outputs {', '.join(sorted(wanted))}. Must "
                "specify all outputs of a node."
            )
        return node

    def _note(self, node: onnx.NodeProto) -> None:
        for tensor_id in node.output:
            self._producers[tensor_id] = node
            self._ids.add(tensor_id)

    def _is_taken(self, tensor_id: str) -> bool:
        return self.knows(tensor_id) or any(
            tensor_id in child._ids for child in self._descendants()
        )

    def _descendants(self) -> Iterator[ModelGraph]:
        for child in self.children:
            yield child
            yield from child._descendants()


def make_attribute(name: str, value: Any) -> onnx.AttributeProto:
    """Returns an attribute of a node; an empty list counts as integers.

    Args:
        name: its name.
        value: a number, text, a tensor, a graph, a list of these, or the attribute itself.
    """
    if isinstance(value, onnx.AttributeProto):
        return value
    if isinstance(value, (list, tuple)) and not value:
        return helper.make_attribute(name, value, attr_type=onnx.AttributeProto.INTS)
    return helper.make_attribute(name, int(value) if isinstance(value, bool) else value)


# --- Shapes and types, and checks of windows ---

_OPS = ("Conv", "MaxPool", "AveragePool", "MultiConv", "Pad")


_Shapes = Callable[[str], "list[int] | None"]


def check_node(node: onnx.NodeProto | None, shape_of: _Shapes) -> None:
    """Refuses a window that does not fit the data, if the shape of that is known.

    Args:
        node: the node.
        shape_of: returns the shape of a tensor.

    Raises:
        popart_exception: If it does not fit.
    """
    if node is None or node.op_type not in _OPS:
        return
    given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Pad":
        shape = shape_of(node.input[0])
        if shape and "pads" in given:
            windows.check_pads(given["pads"], len(shape))
        return
    if node.op_type != "MultiConv":
        _check_window(node.op_type, node.input, given, shape_of)
        return
    for number, inputs in enumerate(windows.parts(node.input, given["numInputs"])):
        own = {}
        for name in ("strides", "pads", "dilations", "inDilations"):
            counts = given.get(f"{name}Lengths")
            own[name] = windows.parts(given[name], counts)[number] if counts else None
        _check_window(node.op_type, inputs, own, shape_of)


def _check_window(
    type_: str, inputs: Sequence[str], given: Mapping[str, Any], shape_of: _Shapes
) -> None:
    """Refuses a window over one tensor."""
    shape = shape_of(inputs[0])
    if not shape:
        return
    kernel, sizes = given.get("kernel_shape"), shape[2:]
    if type_.endswith("Conv"):
        weights = shape_of(inputs[1])
        if not weights:
            return
        windows.check_kernel(kernel, weights[2:], inputs[1])
        kernel = weights[2:]
    if given.get("inDilations"):
        sizes = [(size - 1) * step + 1 for size, step in zip(sizes, given["inDilations"])]
    windows.check(
        type_,
        sizes,
        kernel or [],
        given.get("strides"),
        given.get("pads"),
        given.get("dilations"),
    )


# Takes a node, functions from ids of its inputs to types and data, and versions of domains; returns
# types of its outputs, or None if there is no rule.
Rule = Callable[[onnx.NodeProto, Any, Any, Any], "dict[str, onnx.TypeProto] | None"]


# Ops whose results are booleans, of the shape to which their inputs broadcast.
_LOGICAL = frozenset({"And", "Or", "Xor", "Not", "Equal", "Greater", "Less"})


_logger = logging.getLogger("popart.builder")


class Inference:
    """The types of the tensors of one graph, found node by node as they are asked for."""

    def __init__(self, graph: ModelGraph, rule: Rule, parent: Inference | None = None) -> None:
        """Starts with the types of inputs and initializers.

        Args:
            graph: the graph.
            rule: infers the types of nodes of domains other than ONNX.
            parent: of the graph around it.
        """
        self._graph = graph
        self._rule = rule
        self._parent = parent
        self._types: dict[str, onnx.TypeProto] = {}
        self._done = 0

    def type_of(self, tensor_id: str) -> onnx.TypeProto | None:
        """Returns the type of a tensor; None if it is not known.

        Args:
            tensor_id: the tensor.
        """
        self._go_on()
        return self._known(tensor_id)

    def _known(self, tensor_id: str) -> onnx.TypeProto | None:
        """Returns the type of a tensor that inputs, weights or nodes so far make."""
        if tensor_id not in self._types:
            for value in self._graph.proto.input:
                self._types.setdefault(value.name, value.type)
            for tensor in self._graph.proto.initializer:
                made = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                self._types.setdefault(tensor.name, made)
        found = self._types.get(tensor_id)
        if found is None and self._parent is not None:
            return self._parent.type_of(tensor_id)
        return found

    def shape_of(self, tensor_id: str) -> list[int] | None:
        """Returns the shape of a tensor; None if it is not known.

        Args:
            tensor_id: the tensor.
        """
        found = self.type_of(tensor_id)
        if found is None or not found.tensor_type.HasField("shape"):
            return None
        dims = found.tensor_type.shape.dim
        return [dim.dim_value for dim in dims] if all(d.HasField("dim_value") for d in dims) else []

    def _go_on(self) -> None:
        """Infers the nodes that were added since."""
        nodes = self._graph.proto.node
        while self._done < len(nodes):
            node = nodes[self._done]
            self._done += 1
            self._types.update(self._infer(node))

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        version = self._graph.opsets.get(node.domain, 1)
        try:
            if node.domain != ONNX_DOMAIN or any(a.HasField("g") for a in node.attribute):
                opsets = self._graph.model_opsets()
                found = self._rule(node, self._known, self._data, opsets)
            else:
                found = self._infer_onnx(node, version)
        except Exception as error:  # whatever is wrong is said when a session is made
            _logger.debug("No types for %s: %s", node.op_type, error)
            found = None
        if found is None:
            _logger.info("The types of the outputs of %s are not known.", node.op_type)
        found = found or {}
        for type_ in found.values():
            _check(node, [d.dim_value for d in type_.tensor_type.shape.dim])
        return found

    def _infer_onnx(self, node: onnx.NodeProto, version: int) -> dict[str, onnx.TypeProto]:
        schema = defs.get_schema(node.op_type, version, node.domain)
        types = {name: self._known(name) for name in node.input if name}
        known = {name: type_ for name, type_ in types.items() if type_ is not None}
        if len(known) != len(types):
            return {}
        if node.op_type in _LOGICAL:
            return _logical(node, known)
        found = shape_inference.infer_node_outputs(
            schema,
            node,
            known,
            {name: data for name in known if (data := self._data(name)) is not None},
            opset_imports=[helper.make_opsetid(ONNX_DOMAIN, version)],
        )
        if node.op_type == "BatchNormalization":
            found.update({name: known[node.input[1]] for name in node.output[1:]})
        return found

    def _data(self, tensor_id: str) -> onnx.TensorProto | None:
        """Returns the value of a constant or initializer."""
        producer = self._graph.producer(tensor_id)
        if producer is not None and producer.op_type == "Constant":
            return next((a.t for a in producer.attribute if a.name == "value"), None)
        tensors = self._graph.proto.initializer
        return next((tensor for tensor in tensors if tensor.name == tensor_id), None)


def _logical(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]
) -> dict[str, onnx.TypeProto]:
    """Returns the type of a logical op, whose inputs may have any type here."""
    shapes = [[d.dim_value for d in types[name].tensor_type.shape.dim] for name in node.input]
    shape = np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    return {node.output[0]: helper.make_tensor_type_proto(onnx.TensorProto.BOOL, shape)}


def _check(node: onnx.NodeProto, shape: Sequence[int]) -> None:
    if any(size < 0 for size in shape):
        raise popart_exception(f"{node.op_type} has invalid shape {list(shape)}.")


def describe(type_: onnx.TypeProto | None) -> str:
    """Returns NumPy's name of the elements of a type; "undefined" if it is not known.

    Args:
        type_: the type.
    """
    return datatypes.of_onnx(type_.tensor_type.elem_type).lower_case if type_ else "undefined"
