"""`SessionCore`: the life cycle of a session: reading a model, compiling, loading, running."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.common import drawings, logs
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.device_info import DeviceInfo
from tensorflow_ipu.frontends.popart.enums import VirtualGraphMode
from tensorflow_ipu.frontends.popart.errors import (
    OutOfMemoryError,
    popart_exception,
    popart_runtime_error,
    poplar_application_runtime_error,
    poplar_exception,
)
from tensorflow_ipu.frontends.popart.lowering import places, programs, survey
from tensorflow_ipu.frontends.popart.lowering.schedules import Schedule
from tensorflow_ipu.frontends.popart.lowering.training import GRADIENT
from tensorflow_ipu.frontends.popart.model import imports, loading
from tensorflow_ipu.frontends.popart.ops.effects import ABORTED
from tensorflow_ipu.frontends.popart.options import checks
from tensorflow_ipu.frontends.popart.options.patterns import (
    EXCLUDED_PATTERNS,
    Patterns,
    check_name,
)
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.sessions import (
    debug_ops,
    device_limits,
    distribution,
    schedule_options,
    transfers,
)
from tensorflow_ipu.frontends.popart.sessions.executables import ExecutableMethods
from tensorflow_ipu.frontends.popart.sessions.random_state import RandomMethods
from tensorflow_ipu.frontends.popart.sessions.reports import ReportMethods
from tensorflow_ipu.frontends.popart.sessions.weight_methods import WeightMethods
from tensorflow_ipu.frontends.popart.sessions.weights import HostWeights
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo, IStepIO
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# Checkpoints of drawings, in the order of preparation.
_CHECKPOINTS = ("FWD0", "FWD1", "BWD0", "PREALIAS", "MAINLOOPS", drawings.FINAL)


class SessionCore(WeightMethods, RandomMethods, ExecutableMethods, ReportMethods):
    """What both kinds of session have: a model that is run step by step."""

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
        options.warn_of_ignored()
        self._options, self._patterns = options.copied(), copy.deepcopy(patterns)
        self._device = device
        anchors = {name: data_flow.art(name) for name in data_flow.anchors()}
        self._flow = DataFlow(data_flow.batchesPerStep(), anchors)
        self._accumulation = self._options.accumulation_factor
        self._replicas = self._options.replication_factor
        distribution.check(self._options, device.type)
        self._total_replicas = self._options.getGlobalReplicationFactor()
        self._check_replicas()
        places.check_pipelining(self._options, device.numIpus // self._replicas)
        proto = loading.load(model)
        self._model = imports.read(
            proto, self._wanted(proto), shapes, self._options.strictOpVersions
        )
        self._check_excluded_patterns()
        differentiated = [
            name[len(GRADIENT) :] for name in self._flow.anchors() if name.startswith(GRADIENT)
        ]
        self._survey = survey.make(
            self._model,
            self._training,
            self._total_replicas,
            differentiated,
            self._numerics(),
            self._patterns.disabled,
        )
        weights = self._model.weights
        self._groupings = {
            name: grouping
            for name in weights
            if (grouping := self._model.grouping(name, self._total_replicas)) is not None
        }
        returned = {name: self._model.returning(name, self._total_replicas) for name in weights}
        self._host = HostWeights(
            {**weights, **self._initial_state()},
            {name: groups for name, groups in returned.items() if groups is not None},
        )
        self._check_anchors()
        if not self._model.nodes:
            raise imports.nothing_to_compute()
        self._schedule = self._made_schedule()
        self._checked_sizes = False
        self._start_random_state()
        self._draw()
        debug_ops.record_ops(self._model, self._survey.infos, self._options.enableOutlining)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._name} {len(self._model.nodes)} nodes]"

    def prepareDevice(self, loadEngine: bool = True, err: OutOfMemoryError | None = None) -> None:
        """Compiles the program, and loads it.

        Args:
            loadEngine: whether to load it too.
            err: where an error about memory goes; without it, it is raised.

        Raises:
            popart_exception: If the model cannot be put into a program.
            poplar_exception: If the device does not compute an op of the type of its inputs.
        """
        self._prepare(loadEngine, err)

    def loadEngineAndConnectStreams(self) -> None:
        """Loads the program that was compiled.

        Raises:
            popart_runtime_error: If none was compiled, or the device cannot be attached.
        """
        if self._executable is None:
            raise popart_runtime_error(
                "There is no compiled engine. Did you forget to call prepareDevice?"
            )
        if self._is_offline():
            raise popart_runtime_error("Trying to load an engine on an offline device.")
        if not self._device.isAttached and not self._device.tryAttachUntilTimeout():
            raise popart_runtime_error(f"Failed to attach to device {self._device!r}.")
        self._load()
        logs.Logger("devicex").info("Engine loaded")

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Runs one step.

        Args:
            *args: a program handle, if any; what inputs are read from and anchors are written to;
                and a name of the run, which has no effect: reports are of programs, not of runs.
            **kwargs: the same by name: `programHandle`, `stepio`, `debugName`.

        Raises:
            TypeError: If there are other arguments.
            popart_exception: If there is no such program.
            popart_runtime_error: If the session is not ready, or data does not fit the model.
            poplar_application_runtime_error: If the program stops itself.
        """
        handle, stepio = _run_arguments(args, kwargs)
        program = self._ready() if handle is None else self._other_program(handle)
        plan = transfers.Plan(
            self._model, self._flow, self._accumulation, self._replicas, self._survey.infos
        )
        if stepio.checks_sizes and not self._checked_sizes and not self._is_synthetic:
            transfers.check_sizes(plan, stepio)
        self._checked_sizes = True
        samples = {} if self._is_synthetic else transfers.read(plan, stepio)
        with eager_context.eager_mode(), self._random_state():
            sent = _launched(program, samples)
        self._runs += 1
        self._is_in_sync = self._is_in_sync and self._training is None
        for name, values in () if self._is_synthetic else sent.items():
            stepio.write(name, values)

    def _other_program(self, handle: str) -> programs.Program:
        """Returns a program beside the main one.

        Args:
            handle: its name.

        Raises:
            popart_exception: If there is none.
        """
        raise popart_exception(f"Program {handle} not found.")

    def getInfo(self, arg0: str) -> TensorInfo:
        """Returns shape and type of a tensor.

        Args:
            arg0: the tensor.

        Raises:
            popart_exception: If there is none.
        """
        if arg0 not in self._ids():
            raise popart_exception(
                f"There is no tensor {arg0} in the session. It has: "
                f"{', '.join(sorted(self._ids()))}."
            )
        return self._info(arg0)

    def _prepare(self, loads: bool, err: OutOfMemoryError | None) -> None:
        self._check_graphs()
        device_limits.check_types(self._model, self._survey.infos)
        self._options.check_accumulation()
        if not self._options.compileEngine:
            return
        try:
            self._compile_or_load()
        except tf.errors.ResourceExhaustedError as error:
            if err is None:
                raise
            err.store(error)
            return
        except tf.errors.InvalidArgumentError as error:
            if _NO_KERNEL not in error.message:
                raise
            raise poplar_exception(error.message) from error
        if loads:
            self.loadEngineAndConnectStreams()

    def _draw(self) -> None:
        """Draws the nodes of the file at the first checkpoint, the needed ones at the others."""
        options = self._options
        for check in drawings.named(options.dotChecks, _CHECKPOINTS):
            is_first = check.upper() == _CHECKPOINTS[0]
            ops = [
                drawings.DrawnOp(node.op_type, node.name, list(node.input), list(node.output))
                for node in (self._model.proto.graph.node if is_first else self._model.nodes)
            ]
            shown = options.firstDotOp, options.finalDotOp
            drawings.write(check, options.logDir, {"main": ops}, shown, options.dotOpNames)

    def _getDataFlow(self) -> DataFlow:
        return self._flow

    def _replicationFactor(self) -> int:
        return self._replicas

    def _accumulationFactor(self) -> int:
        return self._accumulation

    def _wanted(self, proto: Any) -> list[str]:
        """Returns the tensors that are needed: anchors and what gradients are of."""
        return [
            name[len(GRADIENT) :] if name.startswith(GRADIENT) else name
            for name in self._flow.anchors()
        ]

    def _initial_state(self) -> dict[str, np.ndarray]:
        """Returns what the program keeps besides weights, as it is at the start."""
        return {}

    def _ready(self) -> programs.Program:
        """Returns the program, if it can run."""
        if self._is_offline():
            raise popart_runtime_error("Offline IPU device is not configured for execution.")
        if self._needs_upload():
            raise popart_runtime_error(
                "Must call weightsFromHost before run as the device has no weights."
            )
        if self._program is None:
            raise popart_runtime_error("prepare() must be called before run: call prepareDevice.")
        return self._loaded()

    def _needs_upload(self) -> bool:
        return False

    def _made_schedule(self) -> Schedule:
        """Returns how the program is put on IPUs."""
        options, is_trained = self._options, self._training is not None
        checks.check(options, self._flow, is_trained)
        checks.check_exchange(options, self._model.exchange_strategies)
        ipus = self._device.numIpus // self._replicas
        made = schedule_options.schedule_of(
            self._model, options, ipus, self._host.values, is_trained
        )
        schedule_options.check_pipeline(made, self._model, options, self._flow, self._training)
        return made

    def _check_replicas(self) -> None:
        """Refuses devices that replicas cannot share."""
        ipus = self._device.numIpus
        if ipus % self._replicas:
            raise popart_exception(
                f"For replicated graphs the number of IPUs must be divisible by the replication "
                f"factor. Received: {ipus} IPUs, {self._replicas} replicas"
            )

    def _check_excluded_patterns(self) -> None:
        """Refuses nodes that exclude patterns which there are not."""
        for node in self._model.nodes:
            for attribute in node.attribute:
                if attribute.name == EXCLUDED_PATTERNS:
                    for name in attribute.strings:
                        check_name(name.decode())

    def _check_graphs(self) -> None:
        """Refuses IPUs that nothing is placed on."""
        ipus = self._device.numIpus
        if self._options.virtualGraphMode is VirtualGraphMode.Off and ipus != self._replicas:
            raise popart_exception(
                f"The replication factor, {self._replicas}, needs to be equal to the number of "
                f"IPUs, {ipus}, when virtual graphs are off."
            )
        places.check(self._schedule.places, ipus // self._replicas)

    def _check_anchors(self) -> None:
        """Refuses anchors that are no tensors."""
        for name in self._flow.anchors():
            if name in self._ids():
                continue
            added = ""
            if name.startswith(GRADIENT) and name[len(GRADIENT) :] in self._ids():
                added = f" {name[len(GRADIENT) :]} is a tensor, but does not lead to the loss."
            raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.{added}")


# Words of the error of an op of a type that the device has no code for.
_NO_KERNEL = "no supported kernel"
# Words of the error of a floating-point event.
EXCEPTED = "Tiles in excepted state"


def _launched(program: programs.Program, samples: Any) -> Any:
    """Returns what a run of a program sends; what stops a program is an error of Poplar's."""
    try:
        return program.run(samples)
    except tf.errors.OpError as error:
        if EXCEPTED in str(error):
            raise poplar_application_runtime_error(error.message) from error
        if ABORTED not in str(error) or not isinstance(error, tf.errors.InvalidArgumentError):
            raise
        raise poplar_application_runtime_error(
            f"{ABORTED}: the op Abort was reached. {error.message}"
        ) from error


def _run_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str | None, IStepIO]:
    """Returns the program handle, if any, and the data of a run."""
    given = list(args)
    handle = given.pop(0) if given and isinstance(given[0], str) else None
    handle = kwargs.pop("programHandle", handle)
    stepio = given.pop(0) if given else kwargs.pop("stepio", None)
    kwargs.pop("debugName", None)
    if not isinstance(stepio, IStepIO) or kwargs or len(given) > 1:
        raise TypeError(
            "run(): incompatible function arguments. The following argument types are supported:\n"
            "    1. (stepio, debugName=)\n    2. (programHandle, stepio, debugName=)\n\n"
            f"Invoked with: {args}, {kwargs}"
        )
    return handle, stepio
