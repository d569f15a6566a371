"""`schedule_of`: the Schedule of a session, by its options and the annotations of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.common.enums import (
    AccumulateOuterFragmentSchedule,
    AnchorReturnTypeId,
    RecomputationType,
    RecomputeType,
    ReplicatedTensorSharding,
    TensorStorage,
)
from tensorflow_ipu.frontends.common.locations import TensorLocation, TensorLocationSettings
from tensorflow_ipu.frontends.popart import debug_info
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering.places import homes_of, places_of, stage_ipus
from tensorflow_ipu.frontends.popart.lowering.schedules import Location, ModelPlacement
from tensorflow_ipu.frontends.popart.lowering.training import ACCUMULATOR, Training
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions, partials_of

_RECOMPUTE = "__recompute_output_in_backward_pass"
_MIXED = (RecomputationType.Standard, RecomputationType.NormOnly, RecomputationType.RecomputeAll)


def schedule_of(
    model: Model,
    options: SessionOptions,
    ipus: int,
    variables: Mapping[str, np.ndarray],
    is_trained: bool,
) -> ModelPlacement:
    """Returns how a program is put on IPUs.

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
    """Returns where a variable of one kind is; small ones stay whole and on the chip."""
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
