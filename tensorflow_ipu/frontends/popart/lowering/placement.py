"""Placement of a model: IPU, stage and memory of each part, by annotations and options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tensorflow_ipu.frontends.common.enums import (
    AccumulateOuterFragmentSchedule,
    AnchorReturnTypeId,
    RecomputationType,
    RecomputeType,
    ReplicatedTensorSharding,
    TensorStorage,
    VirtualGraphMode,
)
from tensorflow_ipu.frontends.common.locations import TensorLocation, TensorLocationSettings
from tensorflow_ipu.frontends.popart import debug_info
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering.marks import (
    Location,
    ModelPlacement,
    NodePlace,
    Places,
    keys_of,
    place_of,
    stage_ipus,
)
from tensorflow_ipu.frontends.popart.lowering.training import ACCUMULATOR, Training
from tensorflow_ipu.frontends.popart.onnx_model import Model, taken_by
from tensorflow_ipu.frontends.popart.ops import operands, registry
from tensorflow_ipu.frontends.popart.session_options import SessionOptions, partials_of
from tensorflow_ipu.util import linear_partition

# --- IPUs and stages of nodes ---

# Attributes of nodes.
IPU, STAGE, PHASE = "__ipu_number", "__pipeline_stage", "__execution_phase"


def places_of(model: Model, options: SessionOptions, ipus: int) -> Places:
    """Assigns IPUs and stages to nodes; empty if one IPU runs all.

    Args:
        model: the model.
        options: the options of the session.
        ipus: how many IPUs a replica has.

    Raises:
        popart_exception: If annotations are missing, contradict each other, or do not fit the
            IPUs.
    """
    mode = options.virtualGraphMode
    if mode is VirtualGraphMode.Off:
        return {}
    nodes = placed_nodes(model)
    numbers = _ipus_of(nodes, model, options, ipus)
    stages: Sequence[int | None] = [None] * len(nodes)
    if options.enablePipelining:
        stages = _stages_of(model, nodes, numbers)
        _check_callees(model, nodes, numbers)
    return {
        name: NodePlace(number, stage)
        for node, number, stage in zip(nodes, numbers, stages)
        for name in keys_of(node)
    }


def check_pipelining(options: SessionOptions, ipus: int) -> None:
    """Refuses pipelines without several IPUs.

    Args:
        options: the options of the session.
        ipus: how many IPUs a replica has.

    Raises:
        popart_exception: If there is only one, or no node is placed.
    """
    mode = options.virtualGraphMode
    if options.enablePipelining and (mode is VirtualGraphMode.Off or ipus == 1):
        raise popart_exception(
            f"Pipelining requires more than 1 IPU for each replica, and virtual graphs. Received: "
            f"{ipus} IPUs, virtualGraphMode {mode.name}."
        )


def check_ipus(places: Places, ipus: int) -> None:
    """Refuses IPUs that a replica does not have.

    Args:
        places: where nodes run.
        ipus: how many IPUs a replica has.

    Raises:
        popart_exception: If a node is on another.
    """
    for number in (place.ipu for place in places.values()):
        if not 0 <= number < ipus:
            raise popart_exception(
                f"A node has the virtual graph id {number}, and it has to be from 0 to numIPUs - "
                f"1, where numIPUs = {ipus}."
            )


def homes_of(model: Model, places: Places) -> dict[str, NodePlace]:
    """Returns the place of the first use of each input and weight, by id.

    Args:
        model: the model.
        places: where nodes run.
    """
    homes: dict[str, NodePlace] = {}
    for node in model.nodes:
        place = place_of(places, node)
        for name in taken_by(node) if place else ():
            if name in model.weights or name in model.inputs:
                homes.setdefault(name, place)  # type: ignore[arg-type]
    return homes


def placed_nodes(model: Model) -> list[onnx.NodeProto]:
    """Returns the nodes that run: not those that are known when the session is made.

    Args:
        model: the model.
    """
    constant: set[str] = set()
    found = []
    for node in model.nodes:
        taken = taken_by(node)
        if node.op_type == "Constant" or (taken and constant.issuperset(taken)):
            constant.update(node.output)
        else:
            found.append(node)
    return found


def _number(node: onnx.NodeProto, name: str) -> int | None:
    """Returns an annotation of a node."""
    return next((a.i for a in node.attribute if a.name == name), None)


def _ipus_of(
    nodes: Sequence[onnx.NodeProto], model: Model, options: SessionOptions, ipus: int
) -> list[int]:
    """Returns the IPU of each node."""
    if options.virtualGraphMode is VirtualGraphMode.Auto:
        return _split(nodes, model, options.virtualGraphSplitRatios, ipus)
    by_phases = options.virtualGraphMode is VirtualGraphMode.ExecutionPhases
    given = [_number(node, PHASE if by_phases else IPU) for node in nodes]
    known = [number for number in given if number is not None]
    if nodes and not known:
        raise popart_exception(
            f"virtualGraphMode is {options.virtualGraphMode.name}, but no Ops have been annotated "
            f"with {'execution phase' if by_phases else 'virtual graph'} information. Use "
            f"builder.{'executionPhase' if by_phases else 'virtualGraph'}."
        )
    if len(known) < len(given):
        without = next(n for n, number in zip(nodes, given) if number is None)
        raise popart_exception(
            "Either all Ops must have their virtual graph ids set, or none must. "
            f"{without.op_type} ({without.output[0]}) has none, and {len(known)} of {len(given)} "
            "have."
        )
    if by_phases:
        stages = max(1, min(ipus, int(options.executionPhaseSettings.stages)))
        return [phase % stages for phase in known]
    return known


def _split(
    nodes: Sequence[onnx.NodeProto], model: Model, ratios: Sequence[float], ipus: int
) -> list[int]:
    """Divides nodes among IPUs so that their weights are about even, or in given ratios."""
    costs = []
    seen: set[str] = set()
    for node in nodes:
        new = set(taken_by(node)) & set(model.weights) - seen
        seen |= new
        costs.append(1 + sum(model.weights[name].nbytes for name in new))
    if ratios:
        bounds = [sum(ratios[: i + 1]) / sum(ratios) * sum(costs) for i in range(len(ratios))]
        middles = [sum(costs[:i]) + costs[i] / 2 for i in range(len(costs))]
        parts = [sum(middle > bound for bound in bounds[:-1]) for middle in middles]
    else:
        parts = linear_partition.partition(costs, [1] * (len(costs) - 1), ipus)
    if len(set(parts)) < (len(ratios) or ipus):
        raise popart_exception(
            f"[AutoVirtualGraph] Couldn't find enough splits of {len(nodes)} nodes for "
            f"{ipus} IPUs. Use fewer IPUs, or place nodes with builder.virtualGraph."
        )
    return parts


def _stages_of(model: Model, nodes: Sequence[onnx.NodeProto], ipus: Sequence[int]) -> list[int]:
    """Returns the pipeline stage of each node: without annotations the number of its IPU."""
    given = [_number(node, STAGE) for node in nodes]
    known = [stage for stage in given if stage is not None]
    if not known:
        known = list(ipus)
    elif len(known) < len(given):
        without = next(n for n, stage in zip(nodes, given) if stage is None)
        raise popart_exception(
            f"Only some ops have had their pipeline stage set: {without.op_type} "
            f"({without.output[0]}) has none. Set it for all of them, or for none."
        )
    homes: dict[int, tuple[int, onnx.NodeProto]] = {}
    for node, stage, ipu in zip(nodes, known, ipus):
        other, first = homes.setdefault(stage, (ipu, node))
        if other != ipu:
            raise popart_exception(
                f"Ops {_named(model, first)} and {_named(model, node)} have the same pipeline "
                f"stage {stage}, but are on the virtual graphs {other} and {ipu}."
            )
    _check_order(model, nodes, known)
    missing = set(range(max(homes, default=-1) + 1)) - set(homes)
    if missing:
        raise popart_exception(
            f"The set of pipeline stages {sorted(homes)} has to begin at 0 and have no gaps: stage "
            f"{min(missing)} is missing."
        )
    return known


def _check_order(model: Model, nodes: Iterable[onnx.NodeProto], stages: Iterable[int]) -> None:
    """Refuses tensors that go back to an earlier stage."""
    made: dict[str, tuple[int, onnx.NodeProto]] = {}
    for node, stage in zip(nodes, stages):
        for name in taken_by(node):
            before, producer = made.get(name, (stage, node))
            if before > stage:
                raise popart_exception(
                    f"Ops {_named(model, producer)} and {_named(model, node)} have the pipeline "
                    f"stages {before} and {stage}: {name} cannot go back to an earlier stage. Give "
                    "the second a stage of its own with builder.pipelineStage."
                )
        made.update((name, (stage, node)) for name in node.output)


def _check_callees(model: Model, nodes: Iterable[onnx.NodeProto], ipus: Iterable[int]) -> None:
    """Refuses a called graph of a pipeline with nodes on another IPU than the call."""
    for node, ipu in zip(nodes, ipus):
        for callee in (a.g for a in node.attribute if node.op_type == "Call" and a.HasField("g")):
            for inner in callee.node:
                own = _number(inner, IPU)
                if own is None:
                    raise popart_exception(
                        f'Op {_named(model, inner)} in subgraph "{callee.name}" does not have a '
                        "virtual graph id. When pipelining, subgraph ops must have a virtual graph "
                        "id set."
                    )
                if own != ipu:
                    raise popart_exception(
                        f"The virtual graph id ({own}) for Op {_named(model, inner)} in subgraph "
                        f'"{callee.name}" does not match the virtual graph id ({ipu}) of the '
                        "calling op. When pipelining, subgraph ops must be on the IPU of the call."
                    )


def _named(model: Model, node: onnx.NodeProto) -> str:
    """Returns a node's name in errors."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    since = registry.find(domain, node.op_type, model.opsets.get(domain, 1)).since
    return operands.filled(operands.OP, node, since)


# --- The placement of a session ---

_RECOMPUTE = "__recompute_output_in_backward_pass"


_MIXED = (RecomputationType.Standard, RecomputationType.NormOnly, RecomputationType.RecomputeAll)


def schedule_of(
    model: Model,
    options: SessionOptions,
    ipus: int,
    variables: Mapping[str, np.ndarray],
    is_trained: bool,
) -> ModelPlacement:
    """Places a program on IPUs and its variables in memory.

    Args:
        model: the model.
        options: the options of the session.
        ipus: how many IPUs a replica has.
        variables: values of weights and optimizer state, by id.
        is_trained: whether the session trains.

    Raises:
        popart_exception: If the annotations and options do not fit each other.
    """
    places = places_of(model, options, ipus)
    recomputation = options.autoRecomputation
    asked = [node for node in model.nodes if _recomputes(node)]
    if asked and recomputation in _MIXED:
        error = popart_exception("A mixture of auto and manual recomputation is not supported")
        debug_info.add_note(error, asked[0])
        raise error
    activations = options.activationTensorLocationSettings.location.storage
    return ModelPlacement(
        places,
        homes_of(model, places),
        locations_of(model, options, variables),
        recomputes=is_trained
        and (recomputation is not RecomputationType.NoRecompute or bool(asked)),
        offloads_activations=activations is TensorStorage.OffChip,
        adds_products_in_half=partials_of(options.partialsTypeMatMuls) == "float16",
        ipus=ipus,
    )


def check_pipeline(
    schedule: ModelPlacement,
    model: Model,
    options: SessionOptions,
    flow: DataFlow,
    training: Training | None,
) -> None:
    """Refuses models and options that pipelines do not support.

    Args:
        schedule: how the program is put on IPUs.
        model: the model.
        options: the options of the session.
        flow: batches and anchors.
        training: how weights are trained; None for inference.

    Raises:
        popart_exception: If there is something.
    """
    if not schedule.is_pipelined:
        return
    _check_depth(len(stage_ipus(schedule.places)), flow, training)
    for name in flow.anchors():
        if flow.art(name).id() is AnchorReturnTypeId.EveryN:
            raise popart_exception(
                f"The anchor {name} is of the type EveryN: EVERYN is not valid for pipelined "
                "models."
            )
    asked = [node for node in model.nodes if _recomputes(node)]
    if asked and not options.explicitRecomputation:
        raise popart_exception(
            f"{asked[0].op_type} ({asked[0].output[0]}) is annotated, but with pipelining user "
            "annotation for recomputation is not allowed. Use autoRecomputation."
        )
    serial = AccumulateOuterFragmentSchedule.Serial
    is_serial = options.accumulateOuterFragmentSettings.schedule is serial
    if training is not None and training.optimizer.clip_norm_settings and is_serial:
        raise popart_exception(
            "Incompatible accumulateOuterFragmentSchedule: clip norms with pipelining need another "
            "schedule than Serial."
        )


def locations_of(
    model: Model, options: SessionOptions, variables: Mapping[str, np.ndarray]
) -> dict[str, Location]:
    """Returns the memory of each variable that options place.

    Args:
        model: the model.
        options: the options of the session.
        variables: values of weights and optimizer state, by id.
    """
    found = {}
    for name, value in variables.items():
        is_accumulator = name.startswith(ACCUMULATOR)
        if name in model.weights:
            settings = options.weightTensorLocationSettings
        elif is_accumulator:
            settings = options.accumulatorTensorLocationSettings
        else:
            settings = options.optimizerStateTensorLocationSettings
        chosen = options.tensorLocationSettingsOverride.get(name)
        location = _location(settings, chosen, value.size, options.getGlobalReplicationFactor())
        if is_accumulator or location != Location():
            found[name] = Location(location.is_remote, location.split, is_accumulator)
    return found


def _location(
    settings: TensorLocationSettings, chosen: Any, elements: int, replicas: int
) -> Location:
    """Returns the memory of a variable; small ones stay whole and on the chip."""
    location = settings.location
    least, least_sharded = (
        settings.minElementsForOffChip,
        settings.minElementsForReplicatedTensorSharding,
    )
    if isinstance(chosen, TensorLocation):
        location, least, least_sharded = chosen, 0, 0
    is_remote = location.storage is TensorStorage.OffChip and elements >= least
    is_sharded = location.replicatedTensorSharding is ReplicatedTensorSharding.On
    if is_sharded and elements >= least_sharded:
        domain = location.shardingDomain.toReplicaGrouping(replicas)
        return Location(is_remote, domain.groupSize)
    return Location(is_remote)


def _check_depth(stages: int, flow: DataFlow, training: Training | None) -> None:
    """Refuses fewer micro-batches than stages."""
    if training is None or not training.has_accumulators:
        depth, told = flow.batchesPerStep(), "batchesPerStep"
    else:
        depth, told = training.accumulation, "gradient accumulation factor"
    if depth < stages:
        raise popart_exception(
            f"For pipelining, depth ({told}) must equal at least the number of pipeline stages, "
            f"{stages}. Received: {depth}"
        )


def _recomputes(node: Any) -> bool:
    """Returns whether a node is annotated to be computed again."""
    wanted = int(RecomputeType.Recompute)
    return any(a.name == _RECOMPUTE and a.i == wanted for a in node.attribute)
