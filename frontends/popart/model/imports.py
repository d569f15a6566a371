"""`Model`: what a session makes of an ONNX file: inputs, weights and the nodes that are needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import defs

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.model import external_data, loading, reserved
from tensorflow_ipu.frontends.popart.ops import kinds
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# Ops that run although nobody needs what they make.
_KEPT = ("PrintTensor", "Abort", "CopyVarUpdate")
_BROADCAST = "__replicated_stream_mode/"


@dataclasses.dataclass(frozen=True)
class Model:
    """What a session computes.

    Attributes:
        proto: The file.
        opsets: Versions of the domains.
        inputs: Shape and type of each input that is no weight.
        weights: Values of weights.
        nodes: The nodes that are needed, in order.
        states: Values of optimizer state that the file has.
        broadcast: Inputs of which all replicas get the same.
    """

    proto: onnx.ModelProto
    opsets: Mapping[str, int]
    inputs: Mapping[str, TensorInfo]
    weights: Mapping[str, np.ndarray]
    nodes: tuple[onnx.NodeProto, ...]
    states: Mapping[str, np.ndarray]
    broadcast: frozenset[str]

    @property
    def used_inputs(self) -> dict[str, TensorInfo]:
        """The inputs that nodes take, or that are anchored."""
        taken = {name for node in self.nodes for name in taken_by(node)} | self._wanted
        return {name: info for name, info in self.inputs.items() if name in taken}

    _wanted: frozenset[str] = frozenset()


def read(
    model: onnx.ModelProto, wanted: Iterable[str], shapes: InputShapeInfo, strict: bool
) -> Model:
    """Returns what a session computes.

    Args:
        model: the file.
        wanted: tensors that are needed.
        shapes: shapes and types of inputs that take the place of those in the file.
        strict: whether ops have to be of the version that the file's opset has.

    Raises:
        popart_exception: If a name, an input or an op is not as it has to be.
    """
    graph = model.graph
    names = [value.name for value in graph.input]
    for name in {name for name in names if names.count(name) > 1}:
        raise popart_exception(f"The model has a repeated name among its inputs: {name}.")
    for name in (*names, *(value.name for value in graph.output)):
        if reserved.is_reserved(name) and name in names and name not in _states(graph):
            raise popart_exception(f"{name} has an invalid name: clash with reserved prefix.")
    weights = {tensor.name: external_data.value_of(tensor) for tensor in graph.initializer}
    for tensor in graph.initializer:
        datatypes.for_device(datatypes.of_onnx(tensor.data_type))
    opsets = loading.opsets(model)
    wanted = frozenset(wanted)
    nodes = _needed(graph, wanted)
    for node in nodes:
        _check_version(node, opsets, strict)
    taken = {name for node in nodes for name in taken_by(node)} | wanted
    return Model(
        model,
        opsets,
        {v.name: _info(v, shapes) for v in graph.input if v.name not in weights},
        {name: array for name, array in weights.items() if name in taken},
        tuple(nodes),
        {name: array for name, array in weights.items() if reserved.is_reserved(name)},
        _broadcast(model),
        wanted,
    )


def taken_by(node: onnx.NodeProto) -> list[str]:
    """Returns the tensors that a node takes, those that its subgraphs take from around it too.

    Args:
        node: the node.
    """
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found += [name for inner in graph.node for name in taken_by(inner)]
            found += [value.name for value in (*graph.output, *graph.input)]
    return found


def _needed(graph: onnx.GraphProto, wanted: Iterable[str]) -> list[onnx.NodeProto]:
    """Returns the nodes that tensors are made of, in the order of the graph."""
    needed, found = set(wanted), []
    for node in reversed(graph.node):
        if needed.intersection(node.output) or node.op_type in _KEPT:
            found.append(node)
            needed.update(taken_by(node))
    return found[::-1]


def _states(graph: onnx.GraphProto) -> set[str]:
    return {tensor.name for tensor in graph.initializer}


def _broadcast(model: onnx.ModelProto) -> frozenset[str]:
    """Returns the inputs of which all replicas get the same."""
    return frozenset(
        entry.key[len(_BROADCAST) :]
        for entry in model.metadata_props
        if entry.key.startswith(_BROADCAST) and entry.value == "1"
    )


def _info(value: onnx.ValueInfoProto, shapes: InputShapeInfo) -> TensorInfo:
    """Returns shape and type of an input."""
    if shapes.has(value.name):
        return shapes.get(value.name)
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return shapes.get(value.name)
    if any(not dim.HasField("dim_value") or dim.dim_value < 0 for dim in tensor.shape.dim):
        raise popart_exception(
            f"The shape of the input {value.name} is not known: it must be specified in "
            "InputShapeInfo."
        )
    type_ = datatypes.for_device(datatypes.of_onnx(tensor.elem_type))
    return TensorInfo(type_.member, [dim.dim_value for dim in tensor.shape.dim])


def _check_version(node: onnx.NodeProto, opsets: Mapping[str, int], strict: bool) -> None:
    """Refuses ops of which the file's opset has a newer version than is supported."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opsets.get(domain, 1)
    kind = kinds.find(domain, node.op_type, version)
    if domain or not strict:
        return
    try:
        since = defs.get_schema(node.op_type, version, domain).since_version
    except defs.SchemaError:
        return
    if since > kind.since:
        raise popart_exception(
            f"{node.op_type} version {since}, which opset {version} has, is not supported; the "
            f"newest is {kind.since}. Set SessionOptions.strictOpVersions to False to use it."
        )
