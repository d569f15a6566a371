"""`Model`: inputs, weights and needed nodes of an ONNX file; names reserved for sessions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, inliner

from tensorflow_ipu.frontends.common.enums import (
    CommGroupType,
    ExchangeStrategy,
    VariableRetrievalMode,
)
from tensorflow_ipu.frontends.common.locations import VariableSettings
from tensorflow_ipu.frontends.common.replica_groups import CommGroup, ReplicaGrouping
from tensorflow_ipu.frontends.popart import datatypes, onnx_files
from tensorflow_ipu.frontends.popart.errors import add_note, popart_exception
from tensorflow_ipu.frontends.popart.ops import registry
from tensorflow_ipu.frontends.popart.ops.effects import has_effect
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# What the functions `reserved...Prefix` are called after -> prefix.
PREFIXES = {
    "Gradient": "Gradient___",
    "UpdatedVar": "UpdatedVar___",
    "Accum": "Accum___",
    "Accl": "Accl___",
    "Accl1": "Accl1___",
    "Accl2": "Accl2___",
    "Accl3": "Accl3___",
    "Step": "Step___",
    "AcclToReduce": "AcclIntoReduce___",
    "AcclToUpdate": "AcclIntoUpdate___",
    "AcclFinalOut": "AcclOutOfAcclUpdate___",
    "FinalReducedGrad": "FinalReducedGradient___",
    "AdamUpdater": "AdamUpdater___",
    "LambR1Sq": "LambR1Sq___",
    "LambR2Sq": "LambR2Sq___",
    "Stashed": "Stashed___",
    "Restored": "Restored___",
    "LossScaling": "lossScaling_",
    "RandomSeed": "randomSeed___",
    "SeedModifier": "randomSeedModifier___",
    "RemoteArg": "RemoteArg___",
    "AutomaticLossScale": "AutomaticLossScaleProxy___",
}
_PAIRS = (
    *("WeightDecayScaleFactor0", "ScaledLearningRate0", "ScaledWeightDecay1"),
    *("ScaledLearningRate1", "DampeningScaleFactor1", "ScaledMomentum1", "LearningRate"),
    *("WeightDecay", "LossScaling", "MaxWeightNorm", "AdamBeta1", "AdamBeta2", "AdamEps", "Step"),
)


for _name in _PAIRS:
    _text = _name[0].lower() + _name[1:]
    PREFIXES[f"Default{_name}"] = f"{_text}___default___"
    PREFIXES[f"Specific{_name}"] = f"{_text}___specific___"


_OTHERS = (
    *("scaledLearningRate2___", "dampeningScaleFactor2___", "scaledMomentum2___"),
    *("sgdWeightDecay___", "sgdMomentum___", "adamGradientScaling___", "adaptiveAlpha___"),
    *("adaptiveEps___", "adaptiveMomentum___", "AdaptiveUpdater___", "Counter___"),
    *("anchorSum___", "anchorFinal___", "ConcatInit___", "ConstValue___", "cycleCount___"),
    *("GlobalNorm___", "Index___", "Init___", "Iterator___", "LoopCond___"),
    *("LossScalingRatio_", "PreviousLossScaling_", "lossScaleUpdateFactor"),
)
_ALL = (*PREFIXES.values(), *_OTHERS)


def is_reserved(name: str) -> bool:
    """Returns whether a name begins with a reserved prefix.

    Args:
        name: the name.
    """
    return name.startswith(_ALL)


_BROADCAST = "__replicated_stream_mode/"
_EXCHANGE = "__exchange_strategy/"
# What the builder says of the groups of replicas that a weight has.
_GROUP_TYPE, _GROUP_SIZE, _MODE = (
    "__comm_group_type/",
    "__comm_group_size/",
    "__variable_settings/",
)


@dataclasses.dataclass(frozen=True)
class Model:
    """Inputs, weights and nodes that a session computes with.

    Attributes:
        proto: The file.
        opsets: Versions of the domains.
        inputs: Shape and type of each input that is no weight.
        weights: Values of weights.
        nodes: The nodes that are needed, in order.
        states: Values of optimizer state that the file has.
        broadcast: Inputs of which all replicas get the same.
        settings: Which replicas share the value of a weight, where the model says it.
        library_ops: Ops of libraries that nodes stand for: they live as long as the model.
    """

    proto: onnx.ModelProto
    opsets: Mapping[str, int]
    inputs: Mapping[str, TensorInfo]
    weights: Mapping[str, np.ndarray]
    nodes: tuple[onnx.NodeProto, ...]
    states: Mapping[str, np.ndarray]
    broadcast: frozenset[str]
    settings: Mapping[str, VariableSettings] = dataclasses.field(default_factory=dict)

    def with_nodes(self, nodes: Sequence[onnx.NodeProto], library_ops: Sequence[Any]) -> Model:
        """Returns the model with other nodes, of which those are kept that are needed.

        Args:
            nodes: the nodes, each after those that it takes tensors of.
            library_ops: the ops of libraries that some of them stand for.
        """
        needed = _needed(nodes, self._wanted)
        taken = {name for node in needed for name in taken_by(node)} | self._wanted
        weights = {name: array for name, array in self.weights.items() if name in taken}
        return dataclasses.replace(
            self, nodes=tuple(needed), weights=weights, library_ops=tuple(library_ops)
        )

    def grouping(self, weight: str, replicas: int) -> ReplicaGrouping | None:
        """Returns the groups of replicas that have values of their own; None if all have the same.

        Args:
            weight: the weight.
            replicas: number of replicas.

        Raises:
            popart_exception: If the number of replicas does not fit the groups.
        """
        if weight not in self.settings or replicas == 1:
            return None
        grouping = self.settings[weight].getReplicaGrouping(replicas)
        return None if grouping.groupSize == replicas else grouping

    @property
    def exchange_strategies(self) -> list[ExchangeStrategy]:
        """When inputs come to the device."""
        return [
            ExchangeStrategy(int(entry.value))
            for entry in self.proto.metadata_props
            if entry.key.startswith(_EXCHANGE) and entry.value.isdigit()
        ]

    def returning(self, weight: str, replicas: int) -> list[int] | None:
        """Returns the group of each replica, for a weight that all of them return.

        Args:
            weight: the weight.
            replicas: number of replicas.
        """
        settings = self.settings.get(weight)
        if settings is None or replicas == 1:
            return None
        if settings.getRetrievalMode() is not VariableRetrievalMode.AllReplicas:
            return None
        grouping = settings.getReplicaGrouping(replicas)
        return [grouping.group_of(replica) for replica in range(replicas)]

    @property
    def used_inputs(self) -> dict[str, TensorInfo]:
        """The inputs that nodes take, or that are anchored."""
        taken = {name for node in self.nodes for name in taken_by(node)} | self._wanted
        return {name: info for name, info in self.inputs.items() if name in taken}

    _wanted: frozenset[str] = frozenset()
    library_ops: tuple[Any, ...] = ()


def read(
    model: onnx.ModelProto, wanted: Iterable[str], shapes: InputShapeInfo, strict: bool
) -> Model:
    """Reads the inputs, weights and nodes that a session computes with.

    Args:
        model: the file.
        wanted: tensors that are needed.
        shapes: shapes and types of inputs that take the place of those in the file.
        strict: whether ops have to be of the version that the file's opset has.

    Raises:
        popart_exception: If a name, an input or an op is not as it has to be.
    """
    if model.functions:  # as exporters write modules: their nodes take the place of calls
        model = inliner.inline_local_functions(model)
    graph = model.graph
    names = [value.name for value in graph.input]
    for name in {name for name in names if names.count(name) > 1}:
        raise popart_exception(f"The model has a repeated name among its inputs: {name}.")
    for name in (*names, *(value.name for value in graph.output)):
        if is_reserved(name) and name in names and name not in _states(graph):
            raise popart_exception(f"{name} has an invalid name: clash with reserved prefix.")
    weights = {tensor.name: onnx_files.value_of(tensor) for tensor in graph.initializer}
    for tensor in graph.initializer:
        datatypes.for_device(datatypes.of_onnx(tensor.data_type))
    opsets = onnx_files.opsets(model)
    wanted = frozenset(wanted)
    nodes = _needed(graph.node, wanted)
    if not nodes and wanted <= {*names, *weights}:
        raise nothing_to_compute()
    for node in nodes:
        _check_version(node, opsets, strict)
    taken = {name for node in nodes for name in taken_by(node)} | wanted
    return Model(
        model,
        opsets,
        {v.name: _info(v, shapes) for v in graph.input if v.name not in weights},
        {name: array for name, array in weights.items() if name in taken},
        tuple(nodes),
        {name: array for name, array in weights.items() if is_reserved(name)},
        _broadcast(model),
        _settings(model),
        wanted,
    )


def nothing_to_compute() -> popart_exception:
    """Returns the error of a model of which no node is needed."""
    error = popart_exception("All operations in the main graph were pruned, nothing to compute")
    add_note(error, "No node makes what is anchored, or leads to the loss.")
    return error


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


def _needed(nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]) -> list[onnx.NodeProto]:
    """Returns the nodes that tensors are made of, in their order."""
    needed, found = set(wanted), []
    for node in reversed(nodes):
        if needed.intersection(node.output) or has_effect(node):
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


def _settings(model: onnx.ModelProto) -> dict[str, VariableSettings]:
    """Returns the replicas that share the value of a weight, if the model specifies them."""
    said = {entry.key: int(entry.value) for entry in model.metadata_props if _is_number(entry)}
    found = {}
    for key, number in said.items():
        if key.startswith(_GROUP_TYPE):
            name = key[len(_GROUP_TYPE) :]
            group = CommGroup(CommGroupType(number), said.get(_GROUP_SIZE + name, 0))
            mode = VariableRetrievalMode(said.get(_MODE + name, 0))
            found[name] = VariableSettings(group, mode)
    return found


def _is_number(entry: onnx.StringStringEntryProto) -> bool:
    """Returns whether an entry of the metadata says something of a weight's groups."""
    return entry.key.startswith((_GROUP_TYPE, _GROUP_SIZE, _MODE)) and entry.value.isdigit()


def _info(value: onnx.ValueInfoProto, shapes: InputShapeInfo) -> TensorInfo:
    """Returns shape and type of an input."""
    if shapes.has(value.name):
        return shapes.get(value.name)
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return shapes.get(value.name)
    sizes = [dim.dim_param or str(dim.dim_value) for dim in tensor.shape.dim]
    for dim, size in zip(tensor.shape.dim, sizes):
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            raise popart_exception(
                f"Input tensor '{value.name}' must be specified in InputShapeInfo, as it has shape "
                f"[{', '.join(sizes)}], which uses an unknown value '{size}'."
            )
    type_ = datatypes.for_device(datatypes.of_onnx(tensor.elem_type))
    return TensorInfo(type_.member, [dim.dim_value for dim in tensor.shape.dim])


def _check_version(node: onnx.NodeProto, opsets: Mapping[str, int], strict: bool) -> None:
    """Refuses ops of which the file's opset has a newer version than is supported."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opsets.get(domain, 1)
    try:
        kind = registry.find(domain, node.op_type, version)
    except popart_exception as error:
        raise popart_exception(f"{error} It is {_named(node)}.") from error
    if domain or not strict:
        return
    try:
        since = defs.get_schema(node.op_type, version, domain).since_version
    except defs.SchemaError:
        return
    if since > kind.since:
        raise popart_exception(
            f"{node.op_type} version {since}, which opset {version} has, is not supported; the "
            f"newest is {kind.since}. Set SessionOptions.strictOpVersions to False to use it. It "
            f"is {_named(node)}."
        )


def _named(node: onnx.NodeProto) -> str:
    """Returns the name in errors of a node of a file."""
    return f"the node {node.name or node.op_type} ({', '.join(node.output)})"
