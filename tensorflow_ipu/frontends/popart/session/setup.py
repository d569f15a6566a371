"""`Setup`: the model, options and schedule of a session, read and checked."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.configs import poplar_options
from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.frontends.common.enums import (
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    DeviceConnectionType,
    DeviceType,
    ExchangeStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from tensorflow_ipu.frontends.common.replica_groups import ReplicaGrouping
from tensorflow_ipu.frontends.cpp_ops import ops as cpp_ops
from tensorflow_ipu.frontends.popart import onnx_files, onnx_model
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.devices import DeviceInfo
from tensorflow_ipu.frontends.popart.errors import popart_exception, poplar_exception
from tensorflow_ipu.frontends.popart.lowering import (
    abstract_evaluation,
    library_patterns,
    placement,
)
from tensorflow_ipu.frontends.popart.lowering.marks import ModelPlacement
from tensorflow_ipu.frontends.popart.lowering.programs import StepDescription
from tensorflow_ipu.frontends.popart.lowering.training import (
    ACCUMULATOR,
    FINAL,
    GRADIENT,
    UPDATED,
    Training,
)
from tensorflow_ipu.frontends.popart.ops.context import Numerics
from tensorflow_ipu.frontends.popart.optimizers import optimizer
from tensorflow_ipu.frontends.popart.optimizers.optimizer import Optimizer
from tensorflow_ipu.frontends.popart.patterns import EXCLUDED_PATTERNS, Patterns, check_name
from tensorflow_ipu.frontends.popart.session_options import SessionOptions, program_options
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# --- Checks of options ---

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


# --- The setup ---


class Setup:
    """Everything that a session knows before it compiles; all its parts share it.

    Attributes:
        name: The name of the session.
        options: A copy of the session options.
        patterns: A copy of the patterns.
        device: The device.
        flow: A copy of batches and anchors.
        accumulation: Micro-batches of a batch.
        replicas: Replicas in this process.
        total_replicas: Replicas in all processes.
        training: How weights are trained; None for inference.
        model: The model.
        facts: Shapes, types and trained weights.
        groupings: Replica groupings of variables that differ between groups, by id.
        values: Weights and optimizer state at the start, by id.
        streamed: Ids of the values that move between host and device.
        schedule: The placement of the program on IPUs.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        flow: DataFlow,
        device: DeviceInfo,
        shapes: InputShapeInfo,
        patterns: Patterns,
        options: SessionOptions,
        training: Training | None = None,
    ) -> None:
        """Reads the model and checks it.

        Args:
            name: the name of the session.
            model: its bytes, its file, or the model itself.
            flow: batches and anchors.
            device: the device.
            shapes: shapes that the model leaves open.
            patterns: the patterns.
            options: the session options.
            training: how weights are trained; None for inference.

        Raises:
            popart_exception: If the model, an anchor or an option is invalid.
        """
        if device is None:
            raise popart_exception("Must pass a valid deviceInfo.")
        patterns.check()
        options.warn_of_ignored()
        self.name, self.device, self.training = name, device, training
        self.options, self.patterns = options.copied(), copy.deepcopy(patterns)
        self.flow = DataFlow(
            flow.batchesPerStep(), {anchor: flow.art(anchor) for anchor in flow.anchors()}
        )
        self.accumulation = self.options.accumulation_factor
        self.replicas = self.options.replication_factor
        check_distribution(self.options, device.type)
        self.total_replicas = self.options.getGlobalReplicationFactor()
        self._check_replicas()
        placement.check_pipelining(self.options, device.numIpus // self.replicas)
        self.model = onnx_model.read(
            onnx_files.load(model), self._wanted(), shapes, self.options.strictOpVersions
        )
        self._check_excluded_patterns()
        self._rewrite()
        self.facts = abstract_evaluation.evaluate(
            self.model,
            training,
            self.total_replicas,
            [_differentiated(anchor) for anchor in self.flow.anchors() if _is_gradient(anchor)],
            self.numerics,
            self.patterns.disabled,
        )
        self.groupings = self._weight_groupings()
        self.values: Mapping[str, np.ndarray] = {**self.model.weights, **self._optimizer_state()}
        self.streamed = [name for name in self.values if self._is_streamed(name)]
        self._check_anchors()
        if not self.model.nodes:
            raise onnx_model.nothing_to_compute()
        self.schedule = self._schedule()

    def __repr__(self) -> str:
        return f"Setup[{self.name} {len(self.model.nodes)} nodes]"

    @property
    def is_synthetic(self) -> bool:
        """Whether synthetic data replaces all transfers between host and device."""
        return self.options.syntheticDataMode is not SyntheticDataMode.Off

    @property
    def is_offline(self) -> bool:
        """Whether the device only compiles."""
        return self.device.connectionType is DeviceConnectionType.Never

    @property
    def keeps_weights(self) -> bool:
        """Whether weights are constants of the program."""
        return self.training is None and self.options.constantWeights

    @property
    def numerics(self) -> Numerics:
        """Options that change the results of ops."""
        return Numerics(
            self.options.enableNonStableSoftmax,
            self.options.groupNormStridedChannelGrouping,
            self.patterns.isPatternEnabled("NlllWithSoftmaxGradDirect"),
            self.patterns.isPatternEnabled("Slice2SliceSubsample"),
            tuple((name, int(getattr(self.options, name))) for name in cpp_ops.OPTIONS),
        )

    def step(self) -> StepDescription:
        """Returns the description of one run of the program."""
        options = self.options
        return StepDescription(
            self.model,
            self.flow,
            {name: self.info(name) for name in self.tensor_ids()},
            self.accumulation,
            self.total_replicas,
            self.schedule,
            self.training,
            self.numerics,
            options.enableStochasticRounding,
            self.groupings,
            self.facts.tracked,
            program_options(options, self.device.type, self.schedule.recomputes),
            options.syntheticDataMode,
            local_replicas=self.replicas,
        )

    def scalars(self) -> Mapping[str, np.ndarray]:
        """Returns the optimizer's numbers that can change, by id of their variables."""
        if self.training is None:
            return {}
        return {**self.training.scalars(), **self.training.kept_scalars()}

    def scalars_of(self, optimizer: Optimizer) -> Mapping[str, np.ndarray]:
        """Returns the numbers of an optimizer that replaces the present one, by id.

        Args:
            optimizer: the optimizer.

        Raises:
            popart_runtime_error: If it cannot replace the present one.
        """
        if self.training is None:
            return {}
        self.training.optimizer.check_replaceable(optimizer)
        return self.training.scalars(optimizer)

    def tensor_ids(self) -> set[str]:
        """Returns the ids of all tensors, and of gradients of the trained weights."""
        gradients = (GRADIENT + name for name in self.facts.trained)
        known = (self.facts.infos, self.values, self.scalars(), self._training_infos())
        return {*gradients, *(name for group in known for name in group)}

    def info(self, name: str) -> TensorInfo:
        """Returns shape and type of a tensor.

        Args:
            name: the id of the tensor, one of `tensor_ids()`.
        """
        made = self._training_infos()
        if name in self.facts.infos:
            return self.facts.infos[name]
        if name in made:
            return made[name]
        if _is_gradient(name):
            return self.facts.infos[_differentiated(name)]
        if name in self.values:
            value = self.values[name]
            return TensorInfo(np.asarray(value[0]) if name in self.groupings else value)
        return TensorInfo(self.scalars()[name])

    def check_graphs(self) -> None:
        """Refuses IPUs that nothing is placed on.

        Raises:
            popart_exception: If there is such an IPU.
        """
        ipus = self.device.numIpus
        if self.options.virtualGraphMode is VirtualGraphMode.Off and ipus != self.replicas:
            raise popart_exception(
                f"The replication factor, {self.replicas}, needs to be equal to the number of "
                f"IPUs, {ipus}, when virtual graphs are off."
            )
        placement.check_ipus(self.schedule.places, ipus // self.replicas)

    def _training_infos(self) -> Mapping[str, TensorInfo]:
        """Returns shape and type of tensors that the training makes in each micro-batch."""
        if self.training is None:
            return {}
        made = {UPDATED + name: self.facts.infos[name] for name in self.training.trained}
        if self.training.scale is not None:
            made[FINAL] = TensorInfo("FLOAT", [])
        return made

    def _wanted(self) -> list[str]:
        """Returns the tensors to compute: anchors, operands of gradients, and the loss."""
        anchors = self.flow.anchors()
        wanted = [_differentiated(name) if _is_gradient(name) else name for name in anchors]
        return wanted if self.training is None else [*wanted, self.training.loss]

    def _rewrite(self) -> None:
        """Lets patterns and transforms of loaded libraries rewrite the model."""
        settings = self.options.experimentalSettings.customTransformApplierSettings
        rewriting = library_patterns.Rewriting(
            library_patterns.enabled(self.patterns),
            library_patterns.transforms_of(settings) if self.training is None else {},
            self.total_replicas,
            "" if self.training is None else self.training.loss,
            self._wanted(),
            dict(self.numerics.for_libraries),
        )
        if rewriting:
            facts = abstract_evaluation.evaluate(
                self.model, None, self.total_replicas, (), self.numerics
            )
            self.model = rewriting.rewritten(self.model, facts.infos)

    def _weight_groupings(self) -> Mapping[str, ReplicaGrouping]:
        found = {}
        for name in self.model.weights:
            grouping = self.model.grouping(name, self.total_replicas)
            if grouping is not None:
                found[name] = grouping
        return found

    def _optimizer_state(self) -> dict[str, np.ndarray]:
        """Returns the optimizer state at the start; prepares the training for its weights."""
        if self.training is None:
            return {}
        weights, groups = self.model.weights, self.groupings
        self.training = self.training.for_weights(
            {name: weights[name] for name in self.facts.trained}
        )
        optimizer.groups_of(self.training.optimizer.clip_norm_settings, self.training.trained)
        state = self.training.state(weights, {n: len(g.groups()) for n, g in groups.items()})
        self.groupings = {
            **groups,
            **{name: groups[of] for name in state if (of := name.partition("___")[2]) in groups},
        }
        given = self.model.states
        return {name: given.get(name, value) for name, value in state.items()}

    def _is_streamed(self, name: str) -> bool:
        """Returns whether a variable moves between host and device."""
        if self.is_synthetic:
            return False
        if name in self.model.weights:
            return True
        if name.startswith(ACCUMULATOR):
            return not self.options.disableGradAccumulationTensorStreams
        return not self.options.disableOptimizerStateTensorStreams

    def _schedule(self) -> ModelPlacement:
        """Returns the placement of the program on IPUs."""
        options, is_trained = self.options, self.training is not None
        check(options, self.flow, is_trained)
        check_exchange(options, self.model.exchange_strategies)
        made = placement.schedule_of(
            self.model,
            options,
            self.device.numIpus // self.replicas,
            self.values,
            is_trained,
        )
        placement.check_pipeline(made, self.model, options, self.flow, self.training)
        return made

    def _check_replicas(self) -> None:
        """Refuses devices that replicas cannot share."""
        ipus = self.device.numIpus
        if ipus % self.replicas:
            raise popart_exception(
                f"For replicated graphs the number of IPUs must be divisible by the replication "
                f"factor. Received: {ipus} IPUs, {self.replicas} replicas"
            )

    def _check_excluded_patterns(self) -> None:
        """Refuses nodes that exclude unknown patterns."""
        for node in self.model.nodes:
            for attribute in node.attribute:
                if attribute.name == EXCLUDED_PATTERNS:
                    for name in attribute.strings:
                        check_name(name.decode())

    def _check_anchors(self) -> None:
        """Refuses anchors that are no tensors."""
        ids = self.tensor_ids()
        for name in self.flow.anchors():
            if name in ids:
                continue
            added = ""
            if _is_gradient(name) and _differentiated(name) in ids:
                added = f" {_differentiated(name)} is a tensor, but does not lead to the loss."
            raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.{added}")


def _is_gradient(name: str) -> bool:
    return name.startswith(GRADIENT)


def _differentiated(gradient: str) -> str:
    """Returns the tensor of a gradient."""
    return gradient[len(GRADIENT) :]
