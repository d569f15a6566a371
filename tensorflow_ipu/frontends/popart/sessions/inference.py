"""`InferenceSessionCore`: runs a model."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.devices import DeviceInfo
from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.model import onnx_files
from tensorflow_ipu.frontends.popart.options.patterns import Patterns
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.sessions.core import SessionCore
from tensorflow_ipu.frontends.popart.sessions.setup import Setup
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo, IWeightsIO

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
            ignoreWeightsInModelWithoutCorrespondingHostWeight: whether the model may have others.

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
        """Notes whether the program is on the device.

        Args:
            isLoaded: whether it is; if not, the next run needs `loadEngineAndConnectStreams`.
        """
        if not isLoaded:
            self._program.unload()
