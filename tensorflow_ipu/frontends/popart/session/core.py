"""`SessionCore`: compiles, loads and runs a model; its parts do the work."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.common import drawings, logs
from tensorflow_ipu.frontends.common.enums import IrSerializationFormat
from tensorflow_ipu.frontends.cpp_ops.ops import failure_of
from tensorflow_ipu.frontends.popart import onnx_files
from tensorflow_ipu.frontends.popart.dataflow import DataFlow, anchor_array
from tensorflow_ipu.frontends.popart.errors import (
    OutOfMemoryError,
    OutOfMemoryException,
    popart_exception,
    popart_runtime_error,
    poplar_application_runtime_error,
    poplar_exception,
)
from tensorflow_ipu.frontends.popart.lowering import programs, transfers
from tensorflow_ipu.frontends.popart.ops.effects import ABORTED
from tensorflow_ipu.frontends.popart.session import device_program, reports
from tensorflow_ipu.frontends.popart.session.device_program import DeviceProgram, ExecutableFiles
from tensorflow_ipu.frontends.popart.session.reports import Ir, SessionReports
from tensorflow_ipu.frontends.popart.session.setup import Setup
from tensorflow_ipu.frontends.popart.session.state import HostWeights, RandomState
from tensorflow_ipu.frontends.popart.stepio import IStepIO, IWeightsIO
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.frontends.pva import Report

# Checkpoints of drawings, in the order of preparation.
_CHECKPOINTS = ("FWD0", "FWD1", "BWD0", "PREALIAS", "MAINLOOPS", drawings.FINAL)


class SessionCore:
    """A model that runs step by step: the base of both kinds of session."""

    def __init__(self, setup: Setup) -> None:
        """Makes the parts of the session.

        Args:
            setup: model, options and schedule.
        """
        self._setup = setup
        self._weights = HostWeights(setup)
        self._random = RandomState(setup)
        self._program = DeviceProgram(setup, self._weights, self._random)
        self._files = ExecutableFiles(setup, self._weights, self._program)
        self._reports = SessionReports(setup, self._program, self._files)
        self._checked_sizes = False
        self._runs = 0
        self._draw()
        reports.record_ops(setup.model, setup.facts.infos, setup.options.enableOutlining)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._setup.name} {len(self._setup.model.nodes)} nodes]"

    def prepareDevice(self, loadEngine: bool = True, err: OutOfMemoryError | None = None) -> None:
        """Compiles the program, and loads it.

        Args:
            loadEngine: whether to load it too.
            err: where an error about memory goes; without it, it is raised.

        Raises:
            popart_exception: If the model cannot be put into a program.
            poplar_exception: If the device does not compute an op of the type of its inputs, or
                the program of an operation in C++ has a fault.
        """
        self._prepare(loadEngine, err)

    def loadEngineAndConnectStreams(self) -> None:
        """Loads the program that was compiled.

        Raises:
            popart_runtime_error: If none was compiled, or the device cannot be attached.
        """
        self._program.compiled()
        if self._setup.is_offline:
            raise popart_runtime_error("Trying to load an engine on an offline device.")
        device = self._setup.device
        if not device.isAttached and not device.tryAttachUntilTimeout():
            raise popart_runtime_error(f"Failed to attach to device {device!r}.")
        self._program.load()
        logs.Logger("devicex").info("Engine loaded")

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Runs one step.

        Args:
            *args: a program handle, if any; the source of inputs and target of anchors; and a name
                of the run, which has no effect: reports are of programs, not of runs.
            **kwargs: the same by name: `programHandle`, `stepio`, `debugName`.

        Raises:
            TypeError: If there are other arguments.
            popart_exception: If there is no such program.
            popart_runtime_error: If the session is not ready, or data does not fit the model.
            poplar_application_runtime_error: If the program stops itself.
        """
        handle, stepio = _run_arguments(args, kwargs)
        program = self._ready() if handle is None else self._other_program(handle)
        setup = self._setup
        plan = transfers.TransferPlan(
            setup.model, setup.flow, setup.accumulation, setup.replicas, setup.facts.infos
        )
        if stepio.checks_sizes and not self._checked_sizes and not setup.is_synthetic:
            transfers.check_sizes(plan, stepio)
        self._checked_sizes = True
        samples = {} if setup.is_synthetic else transfers.read(plan, stepio)
        with eager_context.eager_mode(), self._random.of_run():
            sent = _launched(program, samples)
        self._runs += 1
        if setup.training is not None:
            self._weights.is_in_sync = False
        for name, values in () if setup.is_synthetic else sent.items():
            stepio.write(name, values)

    def getInfo(self, arg0: str) -> TensorInfo:
        """Returns shape and type of a tensor.

        Args:
            arg0: the tensor.

        Raises:
            popart_exception: If there is none.
        """
        ids = self._setup.tensor_ids()
        if arg0 not in ids:
            raise popart_exception(
                f"There is no tensor {arg0} in the session. It has: {', '.join(sorted(ids))}."
            )
        return self._setup.info(arg0)

    def weightsFromHost(self) -> None:
        """Brings the host's values of weights to the device.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        program = self._program.on_device()
        count = len(self._weights.values)
        logs.Logger("devicex").debug(f"Writing weights from host, {count} tensors")
        self._weights.upload(program.variables)

    def weightsToHost(self) -> None:
        """Brings the device's values of weights to the host.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        self._weights.download(self._program.on_device().variables)
        logs.Logger("devicex").debug("Writing weights to host complete.")

    def readWeights(self, arg0: IWeightsIO) -> None:
        """Writes the host's values of weights into arrays.

        Args:
            arg0: the arrays.

        Raises:
            popart_runtime_error: If an array has another size.
        """
        self._weights.read(arg0)

    def writeWeights(self, arg0: IWeightsIO) -> None:
        """Takes the host's values of weights from arrays.

        Args:
            arg0: the arrays.

        Raises:
            popart_internal_exception: If an array has another shape or type.
        """
        self._weights.write(arg0)

    def resetHostWeights(
        self,
        modelProtoOrFilename: Any,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        """Takes the host's values of weights from a model.

        Args:
            modelProtoOrFilename: its bytes or its file.
            ignoreWeightsInModelWithoutCorrespondingHostWeight: whether to ignore weights that this
                session does not have.

        Raises:
            popart_runtime_error: If it has other weights.
        """
        self._weights.reset(
            modelProtoOrFilename, ignoreWeightsInModelWithoutCorrespondingHostWeight
        )

    def modelToHost(self, arg0: str) -> None:
        """Writes a model with the device's values of weights and optimizer state.

        Args:
            arg0: the file.

        Raises:
            popart_runtime_error: If there is no compiled program.
            OSError: If it cannot be written.
        """
        if self._program.executable is None:
            raise popart_runtime_error(
                "Devicex::prepare() must be called before Devicex::weightsToHost() is called. Call "
                "prepareDevice."
            )
        if self._program.loaded is not None and not self._weights.must_upload:
            self.weightsToHost()
        self._weights.save(self._setup.model.proto, arg0)

    def updateExternallySavedTensorLocations(self, arg0: str, arg1: str) -> None:
        """Moves values of weights of the model from one file to another.

        Args:
            arg0: the file that has them.
            arg1: the new file, which must not exist.

        Raises:
            popart_runtime_error: If a file is missing or in the way, or has none of the values.
        """
        onnx_files.relocate(self._setup.model.proto.graph, arg0, arg1)

    def setRandomSeed(self, seedValue: int) -> None:
        """Sets the seed of random numbers, and the state of the device's generators.

        Args:
            seedValue: the seed; its lowest 64 bits count.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        if self._random.is_used("setRandomSeed"):
            self._check_prepared("setRandomSeedFromHost(uint64_t)")
            self._random.set_seed(seedValue, self._program.on_device().variables)

    def getRandomSeed(self) -> int:
        """Returns the seed that continues the sequence of random numbers; 0 if there are none.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        if not self._random.is_used("getRandomSeed"):
            return 0
        self._check_prepared("getRandomSeedToHost()")
        return self._random.seed(self._program.on_device().variables)

    def getRNGState(self) -> list[int]:
        """Returns the state of the device's generators, on which stochastic rounding depends.

        With synthetic data nothing moves between host and device: it is empty.

        Raises:
            popart_runtime_error: If the option for it is off, or the program is not loaded.
        """
        self._program.on_device()
        return self._random.state()

    def setRNGState(self, rngValue: list[int]) -> None:
        """Sets the state of the device's generators.

        Args:
            rngValue: the words that `getRNGState` returned.

        Raises:
            popart_runtime_error: If the option for it is off, the program is not loaded, or the
                list has another length.
        """
        self._program.on_device()
        self._random.set_state(rngValue)

    def saveExecutable(
        self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True
    ) -> None:
        """Writes the compiled program to a file.

        Args:
            path: the file, or its folder; missing folders are made.
            savePopartMetadata: whether to write the session that it is for; without that, no
                session loads the file.
            saveVariables: whether to write the host's values of weights.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            popart_runtime_error: If nothing was compiled.
            OSError: If it cannot be written.
        """
        self._files.save(path, savePopartMetadata, saveVariables)

    def saveVariables(self, path: str) -> None:
        """Writes the host's values of weights to a file.

        Args:
            path: the file, or its folder; missing folders are made.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            OSError: If it cannot be written.
        """
        self._files.save_variables(path)

    def loadExecutable(self, filename: str) -> None:
        """Takes the compiled program from a file that a session of the same program has saved.

        Args:
            filename: the file; its values of weights, if any, become the host's.

        Raises:
            popart_exception: If it cannot be read, or has another program.
        """
        self._files.load(filename)

    def compileAndExport(self, filename: str, err: OutOfMemoryError | None) -> None:
        """Compiles the program for its device without loading it, and writes it to a file.

        Args:
            filename: the file, or its folder; missing folders are made.
            err: where an error about memory goes; if it is None, it is raised.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            OSError: If it cannot be written.
        """
        target = self._files.export_target(filename)
        self._prepare(False, err)
        if self._program.executable is not None:
            self._files.save(os.fspath(target))
            self._reports.write(self, target.parent)

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """Returns memory and time of the program as text.

        Args:
            resetProfile: no effect: reports always have all runs.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        return self._reports.summary()

    def getReport(self) -> Report:
        """Returns memory and time of the program: a report of `pva`, and of `ipu.profiler`.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        return self._reports.report()

    def getSerializedGraph(self) -> bytes:
        """Returns the functions of the compiled program as a serialized `FunctionDefLibrary`.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        return self._reports.serialized_graph()

    def getCycleCount(self, id: str = "") -> int:  # noqa: A002
        """Returns the modelled cycles of one run.

        Args:
            id: "" for the whole run; "inner_ipu_0" and so on for an IPU.

        Raises:
            popart_runtime_error: If nothing was run, cycles are not counted, or there is no such
                counter.
        """
        if not self._runs or self._program.executable is None:
            raise popart_runtime_error("Must call run before getCycleCount.")
        return self._reports.cycles(id)

    def getIr(self) -> Ir:
        """Returns the graph of the session, read only."""
        return Ir(self._setup)

    def _serializeIr(self, format: IrSerializationFormat) -> str:  # noqa: A002
        """Returns the nodes of the graph as JSON; "" if the program is from a file.

        Args:
            format: JSON.
        """
        return "" if self._files.has_loaded else json.dumps(self.getIr().to_dict())

    def _getDataFlow(self) -> DataFlow:
        return self._setup.flow

    def _replicationFactor(self) -> int:
        return self._setup.replicas

    def _accumulationFactor(self) -> int:
        return self._setup.accumulation

    def _prepare(self, loads: bool, err: OutOfMemoryError | None) -> None:
        """Compiles the program, and loads it on request."""
        setup = self._setup
        setup.check_graphs()
        device_program.check_types(setup.model, setup.facts.infos)
        setup.options.check_accumulation()
        if not setup.options.compileEngine:
            return
        try:
            self._compile()
        except tf.errors.ResourceExhaustedError as error:
            if err is None:
                raise
            err.store(error)
            return
        except tf.errors.InvalidArgumentError as error:
            if _NO_KERNEL not in error.message:
                raise
            raise poplar_exception(error.message) from error
        except tf.errors.InternalError as error:
            failure = failure_of(error)
            if failure is None:
                raise
            raise failure from error
        if loads:
            self.loadEngineAndConnectStreams()

    def _compile(self) -> None:
        """Compiles the program, writes its records, and keeps it in the cache if there is one."""
        setup = self._setup
        cached = self._files.look_up()
        self._program.compile()
        self._reports.write(self, None if cached is None else cached.parent)
        reports.record_program(self._program.compiled())
        if setup.options.serializedPoprithmsShiftGraphsDir:
            folder = setup.options.serializedPoprithmsShiftGraphsDir
            reports.write_order(setup.model.nodes, folder, setup.name)
        logs.Logger("devicex").info("Graph compiled")
        trains, memory = setup.training is not None, setup.device.chip.memory_per_tile
        reports.log_plans(setup.model.nodes, setup.options, memory, trains)
        self._files.keep(cached)

    def _ready(self) -> programs.SessionProgram:
        """Returns the program, if it can run."""
        if self._setup.is_offline:
            raise popart_runtime_error("Offline IPU device is not configured for execution.")
        weights = self._weights
        if weights.must_upload and weights.values and not self._setup.keeps_weights:
            raise popart_runtime_error(
                "Must call weightsFromHost before run as the device has no weights."
            )
        if self._program.loaded is None:
            raise popart_runtime_error("prepare() must be called before run: call prepareDevice.")
        return self._program.on_device()

    def _other_program(self, handle: str) -> programs.SessionProgram:
        """Returns a program beside the main one.

        Args:
            handle: its name.

        Raises:
            popart_exception: If there is none.
        """
        raise popart_exception(f"Program {handle} not found.")

    def _check_prepared(self, method: str) -> None:
        """Refuses to call a method before the program is compiled."""
        if self._program.executable is None:
            raise popart_runtime_error(
                f"Devicex::prepare() must be called before Devicex::{method} is called."
            )

    def _draw(self) -> None:
        """Draws the nodes of the file at the first checkpoint, the needed ones at the others."""
        options, model = self._setup.options, self._setup.model
        for check in drawings.named(options.dotChecks, _CHECKPOINTS):
            is_first = check.upper() == _CHECKPOINTS[0]
            ops = [
                drawings.DrawnOp(node.op_type, node.name, list(node.input), list(node.output))
                for node in (model.proto.graph.node if is_first else model.nodes)
            ]
            shown = options.firstDotOp, options.finalDotOp
            drawings.write(check, options.logDir, {"main": ops}, shown, options.dotOpNames)


class SessionAttributes:
    """Attributes of sessions in `popart` that sessions in `popart_core` lack."""

    def initAnchorArrays(self: Any) -> dict[str, np.ndarray]:
        """Returns an array for each anchor.

        Raises:
            RuntimeError: If a period does not divide the batches of a step.
        """
        leading = (self.accumulationFactor, self.replicationFactor)
        return {
            name: anchor_array(self.dataFlow, name, *leading, self.getInfo(name))
            for name in self.dataFlow.anchors()
        }

    @property
    def dataFlow(self: Any) -> DataFlow:
        """Batches and anchors."""
        return self._getDataFlow()

    @property
    def replicationFactor(self: Any) -> int:
        """The number of replicas."""
        return self._replicationFactor()

    @property
    def accumulationFactor(self: Any) -> int:
        """Micro-batches of a batch."""
        return self._accumulationFactor()


def compile_or_raise(prepare: Any, argument: Any) -> None:
    """Compiles a program; raises PopART's error if memory does not suffice.

    Args:
        prepare: the method that compiles.
        argument: its argument.

    Raises:
        OutOfMemoryException: If the program does not fit into the memory of the device.
    """
    state = OutOfMemoryError()
    with eager_context.eager_mode():
        prepare(argument, state)
    if not state.isSuccessful():
        raise OutOfMemoryException(state)


# Words of the error of an op of a type that the device has no code for.
_NO_KERNEL = "no supported kernel"
# Words of the error of a floating-point event.
EXCEPTED = "Tiles in excepted state"


def _launched(program: programs.SessionProgram, samples: Any) -> Any:
    """Runs a program and returns its anchors; an error that stops it is one of Poplar's."""
    try:
        return program.run(samples)
    except tf.errors.OpError as error:
        failure = failure_of(error)
        if failure is not None:
            raise failure from error
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
