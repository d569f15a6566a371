"""`ModelGraph`: one graph of a model that is being built, with its names and scopes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from tensorflow_ipu.frontends.popart.errors import popart_exception

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
