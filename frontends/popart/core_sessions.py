"""The sessions of `popart_core`: a model, its program, and the weights of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.popart import datatypes, transfers
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.devices import DeviceInfo
from tensorflow_ipu.frontends.popart.enums import DeviceConnectionType, VirtualGraphMode
from tensorflow_ipu.frontends.popart.errors import (
    OutOfMemoryError,
    popart_exception,
    popart_runtime_error,
)
from tensorflow_ipu.frontends.popart.lowering import programs, survey
from tensorflow_ipu.frontends.popart.lowering.training import ACCUMULATOR, GRADIENT, Training
from tensorflow_ipu.frontends.popart.model import imports, loading
from tensorflow_ipu.frontends.popart.optimizers.optimizer import Optimizer
from tensorflow_ipu.frontends.popart.options.patterns import Patterns
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo, IStepIO, IWeightsIO
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.frontends.popart.weights import HostWeights


class SessionCore:
    """What both kinds of session have: a model that is run step by step."""

    _training: Training | None = None
    _name = ""

    def _set_up(
        self,
        model: Any,
        data_flow: DataFlow,
        device: DeviceInfo,
        shapes: InputShapeInfo,
        patterns: Patterns,
        options: SessionOptions,
    ) -> None:
        """Reads the model, checks it, and makes the host's weights."""
        if device is None:
            raise popart_exception("Must pass a valid deviceInfo.")
        patterns.check()
        options.check()
        self._options = options.copied()
        self._device = device
        anchors = {name: data_flow.art(name) for name in data_flow.anchors()}
        self._flow = DataFlow(data_flow.batchesPerStep(), anchors)
        self._accumulation = self._options.accumulation_factor
        self._replicas = self._options.replication_factor
        self._check_replicas()
        proto = loading.load(model)
        self._model = imports.read(
            proto, self._wanted(proto), shapes, self._options.strictOpVersions
        )
        differentiated = [
            name[len(GRADIENT) :] for name in self._flow.anchors() if name.startswith(GRADIENT)
        ]
        self._survey = survey.make(self._model, self._training, self._replicas, differentiated)
        self._host = HostWeights({**self._model.weights, **self._initial_state()})
        self._check_anchors()
        self._program: programs.Program | None = None
        self._is_prepared = self._checked_sizes = False
        self._must_upload = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._name} {len(self._model.nodes)} nodes]"

    def prepareDevice(self, loadEngine: bool = True, err: OutOfMemoryError | None = None) -> None:
        """Compiles the program, and loads it.

        Args:
            loadEngine: whether to load it too.
            err: where an error about memory goes; without it, it is raised.

        Raises:
            popart_exception: If the model cannot be put into a program.
        """
        self._is_prepared = True
        if loadEngine and self._options.compileEngine:
            try:
                self.loadEngineAndConnectStreams()
            except tf.errors.ResourceExhaustedError as error:
                if err is None:
                    raise
                err.store(error)

    def loadEngineAndConnectStreams(self) -> None:
        """Loads the program that was compiled.

        Raises:
            popart_runtime_error: If none was compiled, or the device cannot be attached.
        """
        if not self._is_prepared:
            raise popart_runtime_error(
                "There is no compiled engine. Did you forget to call prepareDevice?"
            )
        if self._device.connectionType is DeviceConnectionType.Never:
            raise popart_runtime_error("Trying to load an engine on an offline device.")
        if not self._device.isAttached and not self._device.tryAttachUntilTimeout():
            raise popart_runtime_error(f"Failed to attach to device {self._device!r}.")
        step = programs.Step(
            self._model,
            self._flow,
            {name: self.getInfo(name) for name in self._ids()},
            self._accumulation,
            self._replicas,
            self._options.virtualGraphMode is not VirtualGraphMode.Off,
            self._training,
        )
        with eager_context.eager_mode():
            values = {**self._host.values, **self._scalars()}
            self._program = programs.Program(step, values, self._device.ordinal)

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Runs one step.

        Args:
            *args: a program handle, if any; what inputs are read from and anchors are written to;
                and a name for reports.
            **kwargs: the same by name: `programHandle`, `stepio`, `debugName`.

        Raises:
            popart_exception: If there is no such program.
            popart_runtime_error: If the session is not ready, or data does not fit the model.
        """
        given = list(args)
        handle = given.pop(0) if given and isinstance(given[0], str) else None
        handle = kwargs.get("programHandle", handle)
        if handle is not None:
            raise popart_exception(f"Program {handle} not found.")
        stepio: IStepIO = given.pop(0) if given else kwargs["stepio"]
        program = self._ready()
        plan = transfers.Plan(
            self._model, self._flow, self._accumulation, self._replicas, self._survey.infos
        )
        if stepio.checks_sizes and not self._checked_sizes:
            transfers.check_sizes(plan, stepio)
        self._checked_sizes = True
        samples = transfers.read(plan, stepio)
        with eager_context.eager_mode():
            sent = program.run(samples)
        for name, values in sent.items():
            stepio.write(name, values)

    def weightsFromHost(self) -> None:
        """Brings the host's values of weights to the device.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        self._must_upload = False
        if self._program is None:
            self._loaded()
            return
        with eager_context.eager_mode():
            for name, value in self._streamed().items():
                self._program.variables[name].assign(value)

    def weightsToHost(self) -> None:
        """Brings the device's values of weights to the host.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        program = self._loaded()
        with eager_context.eager_mode():
            for name, value in self._streamed().items():
                value[...] = program.variables[name].numpy()

    def readWeights(self, arg0: IWeightsIO) -> None:
        """Writes the host's values of weights into arrays.

        Args:
            arg0: the arrays.

        Raises:
            popart_runtime_error: If an array has another size.
        """
        self._host.read(arg0)

    def writeWeights(self, arg0: IWeightsIO) -> None:
        """Takes the host's values of weights from arrays.

        Args:
            arg0: the arrays.

        Raises:
            popart_internal_exception: If an array has another shape or type.
        """
        self._host.write(arg0)

    def resetHostWeights(
        self,
        modelProtoOrFilename: Any,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        """Takes the host's values of weights from a model.

        Args:
            modelProtoOrFilename: its bytes or its file.
            ignoreWeightsInModelWithoutCorrespondingHostWeight: whether weights that this session
                does not have do not count.

        Raises:
            popart_runtime_error: If it has other weights.
        """
        self._host.reset(modelProtoOrFilename, ignoreWeightsInModelWithoutCorrespondingHostWeight)
        self._must_upload = True

    def modelToHost(self, arg0: str) -> None:
        """Writes a model with the device's values of weights and optimizer state.

        Args:
            arg0: the file.

        Raises:
            OSError: If it cannot be written.
        """
        if self._program is not None:
            self.weightsToHost()
        self._host.save(self._model.proto, arg0)

    def getInfo(self, arg0: str) -> TensorInfo:
        """Returns shape and type of a tensor.

        Args:
            arg0: the tensor.

        Raises:
            popart_exception: If there is none.
        """
        if arg0 in self._survey.infos:
            return self._survey.infos[arg0]
        if arg0 in self._host.values:
            return TensorInfo(self._host.values[arg0])
        raise popart_exception(
            f"There is no tensor {arg0} in the session. It has: {', '.join(sorted(self._ids()))}."
        )

    def _getDataFlow(self) -> DataFlow:
        return self._flow

    def _replicationFactor(self) -> int:
        return self._replicas

    def _accumulationFactor(self) -> int:
        return self._accumulation

    def _ids(self) -> set[str]:
        """Returns the ids of all tensors."""
        return {*self._survey.infos, *self._host.values}

    def _wanted(self, proto: Any) -> list[str]:
        """Returns the tensors that are needed: anchors and what gradients are of."""
        return [
            name[len(GRADIENT) :] if name.startswith(GRADIENT) else name
            for name in self._flow.anchors()
        ]

    def _initial_state(self) -> dict[str, np.ndarray]:
        """Returns what the program keeps besides weights, as it is at the start."""
        return {}

    def _scalars(self) -> dict[str, np.ndarray]:
        """Returns numbers of the program that can change."""
        return {}

    def _streamed(self) -> dict[str, np.ndarray]:
        """Returns the host's values that move to and from the device."""
        return self._host.values

    def _ready(self) -> programs.Program:
        """Returns the program, if it can run."""
        if self._device.connectionType is DeviceConnectionType.Never:
            raise popart_runtime_error("Offline IPU device is not configured for execution.")
        if self._needs_upload():
            raise popart_runtime_error(
                "Must call weightsFromHost before run: the device has no weights."
            )
        if self._program is None:
            raise popart_runtime_error("prepare() must be called before run: call prepareDevice.")
        return self._program

    def _needs_upload(self) -> bool:
        return False

    def _loaded(self) -> programs.Program:
        if self._program is None:
            raise popart_runtime_error(
                "There is no compiled engine on the device. Did you forget to call prepareDevice?"
            )
        return self._program

    def _check_replicas(self) -> None:
        """Refuses devices that replicas cannot share."""
        ipus = self._device.numIpus
        if ipus % self._replicas:
            raise popart_exception(
                f"For replicated graphs the number of IPUs must be divisible by the replication "
                f"factor. Received: {ipus} IPUs, {self._replicas} replicas"
            )
        if self._options.virtualGraphMode is VirtualGraphMode.Off and ipus != self._replicas:
            raise popart_exception(
                f"The replication factor, {self._replicas}, needs to be equal to the number of "
                f"IPUs, {ipus}, when virtual graphs are off."
            )

    def _check_anchors(self) -> None:
        """Refuses anchors that are no tensors."""
        for name in self._flow.anchors():
            if name in self._ids():
                continue
            added = ""
            if name.startswith(GRADIENT) and name[len(GRADIENT) :] in self._ids():
                added = f" {name[len(GRADIENT) :]} is a tensor, but does not lead to the loss."
            raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.{added}")


class InferenceSessionCore(SessionCore):
    """Runs a model."""

    def __init__(
        self,
        model: Any,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo,
        patterns: Patterns,
        userOptions: SessionOptions,
        name: str,
    ) -> None:
        """Makes everything but the program; see `InferenceSession`."""
        self._name = name
        if not dataFlow.nAnchors():
            raise popart_exception("User must specify an anchor tensor when doing inference.")
        if userOptions.enableGradientAccumulation:
            raise popart_exception("Gradient Accumulation only available when training.")
        self._set_up(model, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions)

    def getAllTensorIds(self) -> set[str]:
        """Returns the ids of all tensors."""
        return self._ids()

    def writeWeights(self, arg0: IWeightsIO) -> None:
        """Takes the host's values of weights from arrays; see `TrainingSessionCore`."""
        if self._options.constantWeights:
            raise popart_runtime_error("Cannot call writeWeights when constantWeights is set.")
        super().writeWeights(arg0)

    def resetHostWeights(
        self,
        modelProtoOrFilename: Any,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        """Takes the host's values of weights from a model; see `TrainingSessionCore`."""
        if self._options.constantWeights:
            raise popart_runtime_error("Cannot call resetHostWeights when constantWeights is set.")
        super().resetHostWeights(
            modelProtoOrFilename, ignoreWeightsInModelWithoutCorrespondingHostWeight
        )

    def _needs_upload(self) -> bool:
        return not self._options.constantWeights and self._must_upload and bool(self._host.values)


class TrainingSessionCore(SessionCore):
    """Trains a model."""

    _training: Training

    def __init__(
        self,
        model: Any,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Optimizer,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo,
        patterns: Patterns,
        userOptions: SessionOptions,
        name: str,
    ) -> None:
        """Makes everything but the program; see `TrainingSession`."""
        self._name = name
        if optimizer.clip_norm_settings:
            raise popart_exception("Optimizers with clip_norm_settings are not supported yet.")
        self._training = Training(
            loss,
            optimizer.copied(),
            (),
            userOptions.accumulationAndReplicationReductionType,
            userOptions.meanAccumulationAndReplicationReductionStrategy,
        )
        self._set_up(model, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions)

    def getTensorIds(self) -> set[str]:
        """Returns the ids of all tensors."""
        return self._ids()

    def updateOptimizerFromHost(self, arg0: Optimizer) -> None:
        """Takes the numbers of an optimizer that can change.

        Args:
            arg0: the optimizer.

        Raises:
            popart_runtime_error: If it cannot take the place of the one before, or the program is
                not loaded.
        """
        program = self._loaded()
        self._training.optimizer.check_replaceable(arg0)
        with eager_context.eager_mode():
            for name, value in arg0.scalars().items():
                program.variables[name].assign(value)

    def _wanted(self, proto: Any) -> list[str]:
        return [*super()._wanted(proto), self._training.loss]

    def _initial_state(self) -> dict[str, np.ndarray]:
        self._training = self._training.for_weights(self._survey.trained)
        given = self._model.states
        state = {}
        for name in self._survey.trained:
            value = self._model.weights[name]
            state.update(self._training.optimizer.state(name, value))
            if self._options.enableGradientAccumulation:
                type_ = datatypes.of_member(self._training.optimizer.accumulator_type).numpy
                state[ACCUMULATOR + name] = np.zeros(value.shape, type_ or value.dtype)
        return {name: given.get(name, value) for name, value in state.items()}

    def _scalars(self) -> dict[str, np.ndarray]:
        return self._training.optimizer.scalars()

    def _streamed(self) -> dict[str, np.ndarray]:
        kept = {
            name
            for name in self._host.values
            if name not in self._model.weights
            and (
                self._options.disableGradAccumulationTensorStreams
                if name.startswith(ACCUMULATOR)
                else self._options.disableOptimizerStateTensorStreams
            )
        }
        return {name: value for name, value in self._host.values.items() if name not in kept}

    def _needs_upload(self) -> bool:
        return self._must_upload and bool(self._host.values)
