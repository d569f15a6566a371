"""Checks of session options: contradictions, and replicas in several processes."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from tensorflow_ipu.configs import poplar_options
from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.frontends.common.enums import (
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    DeviceType,
    ExchangeStrategy,
    VirtualGraphMode,
)
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_exception, poplar_exception
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions

_OVERLAPPING = (ExchangeStrategy.OverlapInnerLoop, ExchangeStrategy.OverlapLoops)


def check(options: SessionOptions, flow: DataFlow, is_trained: bool) -> None:
    """Refuses options that contradict each other.

    Args:
        options: the options.
        flow: batches and anchors.
        is_trained: whether the session trains.

    Raises:
        popart_exception: If there are some.
        poplar_exception: If there is no such option of the engine.
    """
    _check_engine(options)
    _check_loops(options)
    _check_phases(options)
    _check_buffers(options)
    _check_serialization(options)
    _check_forward_program(options, is_trained)
    check_exchange(options, (flow.art(name).exchangeStrategy() for name in flow.anchors()))


def check_loss_scaling(options: SessionOptions) -> None:
    """Refuses a loss scale that follows the gradients of a pipeline without accumulation.

    Args:
        options: the options.

    Raises:
        popart_exception: If it is asked for.
    """
    is_continuous = options.enablePipelining and not options.enableGradientAccumulation
    if options.automaticLossScalingSettings.enabled and is_continuous:
        raise popart_exception(
            "Automatic loss scaling is not currently supported when the 'enablePipelining' "
            "SessionOption is set to 'true', but the 'enableGradientAccumulation' SessionOption is "
            "set to 'false'"
        )


def check_exchange(options: SessionOptions, strategies: Iterable[ExchangeStrategy]) -> None:
    """Refuses overlapped transfers without the options that they require.

    Args:
        options: the options.
        strategies: when inputs or anchors move.

    Raises:
        popart_exception: If something is missing.
    """
    is_ready = (
        options.useHostCopyOps
        and options.enableExplicitMainLoops
        and options.numIOTiles > 0
        and options.virtualGraphMode is not VirtualGraphMode.Off
    )
    for strategy in strategies:
        if strategy is ExchangeStrategy.OverlapStep:
            raise popart_exception("ExchangeStrategy.OverlapStep is not yet supported.")
        if strategy in _OVERLAPPING and not is_ready:
            raise popart_exception(
                f"Transfers of ExchangeStrategy.{strategy.name} require "
                "SessionOptions::useHostCopyOps, enableExplicitMainLoops, numIOTiles and a "
                "virtualGraphMode."
            )


def _check_engine(options: SessionOptions) -> None:
    """Refuses options of the engine that there are not.

    Raises:
        poplar_exception: If there is one.
    """
    for name, value in options.engineOptions.items():
        try:
            poplar_options.check_engine("SessionOptions.engineOptions", {name: str(value)})
        except tf.errors.InvalidArgumentError as error:
            raise poplar_exception(f"{error.message}: Unrecognised option '{name}'") from error


def _check_loops(options: SessionOptions) -> None:
    if options.enableExplicitMainLoops and not options.useHostCopyOps:
        raise popart_exception("enableExplicitMainLoops requires useHostCopyOps.")
    if options.enableExplicitMainLoops:
        options.check_accumulation()
    if not options.aliasZeroCopy:
        return
    if options.enablePipelining and not options.enableExplicitMainLoops:
        raise popart_exception("aliasZeroCopy is not supported with implicit pipelining.")
    if not options.explicitRecomputation:
        raise popart_exception("aliasZeroCopy requires explicitRecomputation.")


def _check_phases(options: SessionOptions) -> None:
    phases = int(options.executionPhaseSettings.phases)
    if phases > 1 and options.virtualGraphMode is not VirtualGraphMode.ExecutionPhases:
        raise popart_exception(
            f"executionPhaseSettings.phases is {phases}, which requires virtualGraphMode "
            f"ExecutionPhases. Received: {options.virtualGraphMode.name}"
        )


def _check_buffers(options: SessionOptions) -> None:
    depths = {"default": options.defaultBufferingDepth, **options.bufferingDepthMap}
    for name, depth in depths.items():
        if depth < 1:
            raise popart_exception(
                f"The minimum buffering depth is 1. Received: {depth} for {name}"
            )
        if depth > 1 and options.rearrangeStreamsOnHost:
            raise popart_exception(
                f"The buffering depth of {name} is {depth}, which streams that are rearranged on "
                "the host cannot have. Set rearrangeStreamsOnHost to False."
            )


def _check_serialization(options: SessionOptions) -> None:
    settings = options.batchSerializationSettings
    is_loop = settings.factor > 1 and settings.method is BatchSerializationMethod.Loop
    context = settings.transformContext
    if is_loop and context is not BatchSerializationTransformContext.Bwd:
        raise popart_exception(
            "BatchSerializationMethod.Loop needs the transformContext "
            f"BatchSerializationTransformContext.Bwd. Received: {context.name}"
        )


def _check_forward_program(options: SessionOptions, is_trained: bool) -> None:
    if not options.createImplicitPipeliningFwdOnlyProgram:
        return
    is_implicit = options.enablePipelining and not options.enableExplicitMainLoops
    if not is_trained or not is_implicit or not options.enableGradientAccumulation:
        raise popart_exception(
            "createImplicitPipeliningFwdOnlyProgram requires training with implicit pipelining "
            "and gradient accumulation: enablePipelining and enableGradientAccumulation, without "
            "enableExplicitMainLoops."
        )


def check_distribution(options: SessionOptions, device: DeviceType) -> None:
    """Refuses options that contradict the processes.

    Args:
        options: the options of a session.
        device: the kind of its device.

    Raises:
        popart_exception: If they contradict each other, or the processes.
    """
    instances = joining.current()
    if options.enableDistributedReplicatedGraphs:
        _check_numbers(options, device)
        _check_processes(options, instances)
    elif instances.count > 1:
        raise popart_exception(
            f"This is one of {instances.count} processes that run a program together. Set "
            "SessionOptions.enableDistributedReplicatedGraphs, globalReplicationFactor and "
            "globalReplicaOffset, or start it without poprun."
        )


def _check_numbers(options: SessionOptions, device: DeviceType) -> None:
    """Refuses impossible numbers of replicas."""
    total, offset = int(options.globalReplicationFactor), int(options.globalReplicaOffset)
    local = options.replication_factor
    if total < 1:
        raise popart_exception(f"Invalid globalReplicationFactor: {total}. It must be at least 1.")
    if offset < 0:
        raise popart_exception(f"Invalid globalReplicaOffset: {offset}. It must be at least 0.")
    if offset > total:
        raise popart_exception(
            f"Global replica offset {offset} is greater than the globalReplicationFactor, {total}."
        )
    if options.enableReplicatedGraphs and local == 1:
        raise popart_exception(
            "Local replicated graphs enabled but replication factor is 1. Set "
            "replicatedGraphCount, or enableReplicatedGraphs to False."
        )
    if local > total:
        raise popart_exception(
            f"Invalid local replication factor: {local} replicas here, and {total} in all."
        )
    if device not in (DeviceType.Ipu, DeviceType.OfflineIpu):
        raise popart_exception(
            f"Only IPU Hardware devices supported by distributed graphs. Received: {device}"
        )


def _check_processes(options: SessionOptions, instances: Instances) -> None:
    """Refuses numbers of replicas that contradict the processes."""
    total, local = int(options.globalReplicationFactor), options.replication_factor
    if total != instances.count * local:
        raise popart_exception(
            f"Invalid globalReplicationFactor: {total}, but {instances.count} processes with "
            f"{local} replicas each run this program. Start it with poprun, and call popdist.init "
            "before a device is acquired."
        )
    expected = instances.index * local
    if options.globalReplicaOffset != expected:
        raise popart_exception(
            f"Invalid globalReplicaOffset: {options.globalReplicaOffset}. The first of the "
            f"{local} replicas of process {instances.index} has the number {expected}."
        )
