"""Patterns and transforms of users' C++ libraries: they rewrite the graph of a model.

A model gets a counterpart in `libpopart`: nodes of a library are its ops, other nodes are ops that
only have a class, inputs and outputs. What the library makes of it is written back to the nodes.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.cpp_ops import library, ops
from tensorflow_ipu.frontends.cpp_ops.ops import CppIr, CppOp
from tensorflow_ipu.frontends.popart import datatypes, onnx_model
from tensorflow_ipu.frontends.popart.lowering import placement
from tensorflow_ipu.frontends.popart.onnx_model import Model
from tensorflow_ipu.frontends.popart.ops import libraries
from tensorflow_ipu.frontends.popart.patterns import Patterns
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

#: Points at which transforms of sessions for inference run, in order.
CHECKPOINTS = ("Fwd0", "Fwd1", "Bwd0", "PreAlias", "MainLoops", "Final")
# Patterns run after these.
_BEFORE_PATTERNS = ("Fwd0", "Bwd0", "PreAlias")
# Numbers of `popart::TensorType`.
_CONST, _STREAM, _VARIABLE = 1, 2, 4


def enabled(patterns: Patterns) -> list[str]:
    """Returns the patterns of loaded libraries that are on.

    Args:
        patterns: the patterns of a session.
    """
    return [name for name in ops.patterns() if patterns.isPatternEnabled(name)]


def transforms_of(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the names of transforms by checkpoint; unknown checkpoints are logged.

    Args:
        settings: `experimentalSettings.customTransformApplierSettings`.
    """
    found = {}
    for checkpoint, names in settings.items():
        if checkpoint in CHECKPOINTS:
            found[checkpoint] = list(names)
        else:
            Logger("ir").error(
                f"Unknown checkpoint {checkpoint} of customTransformApplierSettings. Expected one "
                f"of: {', '.join(CHECKPOINTS)}"
            )
    return found


@dataclasses.dataclass(frozen=True)
class Rewriting:
    """Patterns and transforms of a session that rewrite its model.

    Attributes:
        patterns: Names of the patterns that are on.
        transforms: Names of transforms by checkpoint.
        replicas: Number of replicas.
        loss: The loss; "" for inference.
        anchors: Tensors that stay.
        options: Options of the session that ops may ask for.
    """

    patterns: Sequence[str]
    transforms: Mapping[str, Sequence[str]]
    replicas: int
    loss: str
    anchors: Sequence[str]
    options: Mapping[str, int]

    def __bool__(self) -> bool:
        return bool(self.patterns or self.transforms)

    def rewritten(self, model: Model, infos: Mapping[str, TensorInfo]) -> Model:
        """Returns a model after its patterns and transforms.

        Args:
            model: the model.
            infos: shape and type of each of its tensors.

        Raises:
            Exception: What the library throws.
            popart_exception: If patterns do not come to an end.
        """
        mirror = _Mirror(model, infos, self)
        for checkpoint in CHECKPOINTS:
            for name in self.transforms.get(checkpoint, ()):
                mirror.transform(name)
            if checkpoint in _BEFORE_PATTERNS and self.patterns:
                mirror.apply(self.patterns)
        return mirror.written_back()


class _Mirror:
    """The counterpart of a model in the library."""

    def __init__(self, model: Model, infos: Mapping[str, TensorInfo], rewriting: Rewriting) -> None:
        self._model = model
        self._ir = CppIr(rewriting.replicas, bool(rewriting.loss))
        self._ir.set_options(rewriting.options)
        self._graph = self._ir.graph()
        self._nodes: dict[int, onnx.NodeProto] = {}
        self._texts: dict[int, str] = {}
        self._constants: list[onnx.NodeProto] = []
        for name, info in infos.items():
            if name in model.inputs or name in model.weights:
                self._add_tensor(name, info)
                kind = _VARIABLE if name in model.weights else _STREAM
                library.call("set_tensor_type", self._graph, name, kind)
        for node in model.nodes:
            self._add_node(node, infos)
        inner = {name for node in model.nodes for name in onnx_model.taken_by(node)}
        outer = {name for node in model.nodes for name in node.input}
        kept = sorted({*rewriting.anchors, *(inner - outer)})
        library.call("set_kept", self._graph, rewriting.loss, len(kept), library.texts(kept))
        self._before = self._schedule()

    def _add_tensor(self, name: str, info: TensorInfo, data: np.ndarray | None = None) -> None:
        type_ = datatypes.of_member(info.dataType()).name
        self._ir.add_tensor(name, type_, info.shape(), data)

    def _add_node(self, node: onnx.NodeProto, infos: Mapping[str, TensorInfo]) -> None:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            self._constants.append(node)
            values = [a.t for a in node.attribute if a.name == "value"]
            array = numpy_helper.to_array(values[0]) if values else None
            self._add_tensor(node.output[0], infos[node.output[0]], array)
            return
        version = self._model.opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)
        identifier = (node.domain or "ai.onnx", node.op_type, version)
        attributes = libraries.attributes_of(node)
        if libraries.has_op(node, version):
            op = self._ir.create_op(
                identifier, node.name, attributes, list(node.input), list(node.output)
            )
            self._texts[op.id] = op.text
            number = op.id
        else:
            for name in node.output:
                if name:
                    self._add_tensor(name, infos[name])
            number = self._ir.create_built_in(
                identifier, node.name, attributes, list(node.input), list(node.output)
            )
        self._nodes[number] = node

    def apply(self, patterns: Sequence[str]) -> None:
        """Applies patterns until none changes the graph."""
        library.call("apply_patterns", self._graph, len(patterns), library.texts(patterns))

    def transform(self, name: str) -> None:
        """Applies a transform; an unknown one is logged."""
        if not library.call("apply_transform", self._graph, name):
            Logger("ir").error(f"No transform with the name {name} is registered")

    def written_back(self) -> Model:
        """Returns the model that the graph stands for now."""
        schedule = self._schedule()
        changed = self._changed()
        if schedule == self._before and not changed:
            return self._model
        kept: list[CppOp] = []
        nodes = [*self._constants, *self._new_constants()]
        nodes += [self._written(said, said["id"] in changed, kept) for said in schedule]
        return self._model.with_nodes(nodes, kept)

    def _schedule(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(library.call("schedule", self._graph))
        return found

    def _changed(self) -> set[int]:
        """Returns the ops of the library whose own attributes a pattern has changed."""
        return {
            said["id"]
            for said in self._schedule()
            if said["id"] in self._texts
            and CppOp(self._ir, said["handle"]).text != self._texts[said["id"]]
        }

    def _new_constants(self) -> Iterable[onnx.NodeProto]:
        """Returns nodes for the constants that a pattern has added."""
        known = {node.output[0] for node in self._constants}
        for name, type_, shape in json.loads(library.call("sources", self._graph, _CONST)):
            if name in known:
                continue
            dtype = np.dtype(datatypes.named(type_).numpy)
            size = int(np.prod(shape)) * dtype.itemsize
            data = ctypes.string_at(library.call("tensor_data", self._graph, name), size)
            array = np.frombuffer(data, dtype).reshape(shape)
            yield helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))

    def _written(
        self, said: Mapping[str, Any], is_changed: bool, kept: list[CppOp]
    ) -> onnx.NodeProto:
        """Returns the node of an op."""
        node = self._nodes.get(said["id"])
        if said["built_in"] or (node is not None and not is_changed):
            written = onnx.NodeProto()
            if node is not None:
                written.CopyFrom(node)
            else:
                written.op_type, written.name = said["type"], said["name"]
                written.domain = "" if said["domain"] == "ai.onnx" else said["domain"]
            del written.input[:], written.output[:]
            written.input.extend(said["inputs"])
            written.output.extend(said["outputs"])
        else:
            op = CppOp(self._ir, said["handle"])
            kept.append(op)
            written = libraries.node_of(op, said["name"], said["inputs"], said["outputs"])
        for attribute, value in ((placement.IPU, said["ipu"]), (placement.STAGE, said["stage"])):
            _set(written, attribute, value)
        return written


def _set(node: onnx.NodeProto, name: str, value: int | None) -> None:
    """Sets an attribute of a node, which may have another value of it."""
    if value is None:
        return
    for attribute in node.attribute:
        if attribute.name == name:
            node.attribute.remove(attribute)
            break
    node.attribute.append(helper.make_attribute(name, value))
