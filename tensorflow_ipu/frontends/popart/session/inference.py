"""`InferenceSession`: runs a model; `PopxlSession`: runs an Ir of PopXL."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popart import onnx_files
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.devices import DeviceInfo
from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.patterns import Patterns
from tensorflow_ipu.frontends.popart.session.core import (
    SessionAttributes,
    SessionCore,
    compile_or_raise,
)
from tensorflow_ipu.frontends.popart.session.setup import Setup
from tensorflow_ipu.frontends.popart.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo, IStepIO, IWeightsIO
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.frontends.popxl.ir import Ir
from tensorflow_ipu.frontends.popxl.session import Session

_CONSTANT = (
    "Cannot call {} when constantWeights is set. Set `constantWeights` to False in the "
    "`SessionOption`s when initialising the session to enable this behaviour."
)


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
        """Makes everything but the program; see `InferenceSession`.

        Args:
            model: its bytes, or its file.
            dataFlow: batches and anchors.
            deviceInfo: the device.
            inputShapeInfo: shapes of inputs that the model does not say.
            patterns: transformations of the graph.
            userOptions: the options.
            name: name of the session.
        """
        proto = onnx_files.load(model)
        if not dataFlow.nAnchors():
            raise popart_exception("User must specify an anchor tensor when doing inference.")
        if userOptions.enableGradientAccumulation:
            raise popart_exception("Gradient Accumulation only available when training.")
        if userOptions.automaticLossScalingSettings.enabled:
            raise popart_exception(
                "Automatic loss scaling is only available when training. Set "
                "SessionOptions.automaticLossScalingSettings.enabled to False for inference."
            )
        super().__init__(
            Setup(name, proto, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions)
        )

    def getAllTensorIds(self) -> set[str]:
        """Returns the ids of all tensors."""
        return self._setup.tensor_ids()

    def writeWeights(self, arg0: IWeightsIO) -> None:
        """Takes the host's values of weights from arrays; see `TrainingSessionCore`.

        Args:
            arg0: the arrays.

        Raises:
            popart_runtime_error: If weights are constant.
        """
        if self._setup.options.constantWeights:
            raise popart_runtime_error(_CONSTANT.format("writeWeights"))
        super().writeWeights(arg0)

    def resetHostWeights(
        self,
        modelProtoOrFilename: Any,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        """Takes the host's values of weights from a model; see `TrainingSessionCore`.

        Args:
            modelProtoOrFilename: its bytes or its file.
            ignoreWeightsInModelWithoutCorrespondingHostWeight: whether to ignore weights that this
                session does not have.

        Raises:
            popart_runtime_error: If weights are constant.
        """
        if self._setup.options.constantWeights:
            raise popart_runtime_error(_CONSTANT.format("resetHostWeights"))
        super().resetHostWeights(
            modelProtoOrFilename, ignoreWeightsInModelWithoutCorrespondingHostWeight
        )

    def checkInplacingAmbiguity(self) -> None:
        """Checks that the order of modifications is fixed: in ONNX models nothing is modified."""

    def copyDeviceWeightsToHost(self) -> None:
        """Brings the device's values of weights to the host."""
        self.weightsToHost()

    def areHostWeightsInSync(self) -> bool:
        """Returns whether host and device have the same values of weights."""
        return self._weights.is_in_sync

    def markHostWeightsInSync(self) -> None:
        """Marks host and device as having the same values of weights."""
        self._weights.is_in_sync = True

    def markHostWeightsOutOfSync(self) -> None:
        """Marks the device's values of weights as changed."""
        self._weights.is_in_sync = False

    def setEngineIsLoaded(self, isLoaded: bool) -> None:
        """Records whether the program is on the device.

        Args:
            isLoaded: whether it is; if not, the next run needs `loadEngineAndConnectStreams`.
        """
        if not isLoaded:
            self._program.unload()


class PopxlSession:
    """Runs an Ir of PopXL: inputs and anchors are its streams."""

    def __init__(self, ir: Ir, device: DeviceInfo, name: str) -> None:
        """Takes an Ir over: it cannot change any more.

        Args:
            ir: the Ir.
            device: the device; it is given back, and the session attaches one of its own.
            name: the name of the session.

        Raises:
            popart_exception: If it is no Ir.
        """
        if not isinstance(ir, Ir):
            raise popart_exception(f"fromIr takes an Ir of PopXL. Received: {ir!r}")
        if device is None:
            raise popart_exception("Must pass a valid deviceInfo.")
        self._device = device
        self._name = name
        self._session = Session(ir, "ipu_hw")
        self._streams = {
            stream.tensor_id: stream
            for stream in (*ir.get_all_h2d_streams(), *ir.get_all_d2h_streams())
        }
        self._inputs = {stream.tensor_id: stream for stream in ir.get_all_h2d_streams()}
        self._outputs = {stream.tensor_id: stream for stream in ir.get_all_d2h_streams()}
        self.dataFlow = DataFlow(ir.num_host_transfers, list(self._outputs))
        self.replicationFactor = ir.instance_replication_factor
        self.accumulationFactor = 1

    def __repr__(self) -> str:
        return f"PopxlSession[{self._name} {self._session!r}]"

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program, attaches a device and brings the weights to it.

        Args:
            loadEngine: whether to do so now.
        """
        if loadEngine and not self._session.is_attached:
            self._device.detach()
            self._session.__enter__()

    def loadEngineAndConnectStreams(self) -> None:
        """Attaches a device and brings the weights to it."""
        self.prepareDevice()

    def weightsFromHost(self) -> None:
        """Brings the host's values of weights to the device."""
        self._session.weights_from_host()

    def weightsToHost(self) -> None:
        """Brings the device's values of weights to the host."""
        self._session.weights_to_host()

    def close(self) -> None:
        """Gives the device back; the values of weights come to the host."""
        if self._session.is_attached:
            self._session.__exit__(None, None, None)

    def initAnchorArrays(self) -> dict[str, np.ndarray]:
        """Returns an array for each stream to the host."""
        made = self._session.create_host_outputs()
        return {stream.tensor_id: array for stream, array in made.items()}

    def getInfo(self, arg0: str) -> TensorInfo:
        """Returns shape and type of a stream.

        Args:
            arg0: its id.

        Raises:
            popart_exception: If there is none.
        """
        if arg0 not in self._streams:
            raise popart_exception(f"There is no stream {arg0}: {', '.join(self._streams)}.")
        stream = self._streams[arg0]
        return TensorInfo(stream.dtype.as_numpy(), list(stream.shape))

    def run(self, stepio: IStepIO, debugName: str = "") -> None:
        """Runs the main graph once.

        Args:
            stepio: the source and target of streams.
            debugName: a name that only the original shows.

        Raises:
            popart_runtime_error: If the session is not prepared.
        """
        if not self._session.is_attached:
            raise popart_runtime_error("prepare() must be called before run: call prepareDevice.")
        outputs = self._session.create_host_outputs()
        count = self.dataFlow.batchesPerStep() * self.replicationFactor
        leading = (self.dataFlow.batchesPerStep(), self.replicationFactor)
        inputs: dict[Any, np.ndarray] = {}
        for name, stream in self._inputs.items():
            data = stepio.read(name, count, tuple(stream.shape))
            shape = [size for size in leading if size != 1]
            inputs[stream] = data.reshape(*shape, *stream.shape)
        self._session.run_with_outputs(inputs, outputs)
        for sent, array in outputs.items():
            stepio.write(sent.tensor_id, array.reshape(-1, *sent.shape))


class InferenceSession(SessionAttributes, InferenceSessionCore):
    """Runs a model on a device."""

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo = InputShapeInfo(),
        patterns: Patterns | None = None,
        userOptions: SessionOptions = SessionOptions(),
        name: str = "inference",
    ) -> None:
        """Makes everything but the program of the device.

        Args:
            fnModel: the bytes of a model, or its file.
            dataFlow: batches and anchors.
            deviceInfo: the device.
            inputShapeInfo: shapes that the model leaves open.
            patterns: which rewrites are on.
            userOptions: options.
            name: its name.

        Raises:
            popart_exception: If the model, an anchor or an option is not as it has to be.
        """
        super().__init__(
            fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns or Patterns(), userOptions, name
        )

    def prepareDevice(self, loadEngine: bool = True) -> None:  # type: ignore[override]
        """Compiles the program; see `InferenceSessionCore.prepareDevice`.

        Args:
            loadEngine: whether to load it too.

        Raises:
            OutOfMemoryException: If it does not fit into the memory of the device.
        """
        compile_or_raise(super().prepareDevice, loadEngine)

    def compileAndExport(self, filename: str) -> None:  # type: ignore[override]
        """Compiles the program and writes it to a file; see `saveExecutable`.

        Args:
            filename: the file, or a folder to put it into; folders that are missing are made.

        Raises:
            OutOfMemoryException: If it does not fit into the memory of the device.
            OSError: If the file cannot be written.
        """
        compile_or_raise(super().compileAndExport, filename)

    @classmethod
    def fromIr(cls, ir: Any, deviceInfo: DeviceInfo, name: str = "fromIr") -> PopxlSession:
        """Returns a session that runs an Ir of PopXL.

        Args:
            ir: the Ir, which cannot change any more.
            deviceInfo: the device.
            name: its name.

        Raises:
            popart_exception: If it is no Ir.
        """
        return PopxlSession(ir, deviceInfo, name)
