"""`InferenceSession` and `TrainingSession`: run models on devices; the module `popart.session`."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.common.enums import AnchorReturnTypeId
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.devices import DeviceInfo
from tensorflow_ipu.frontends.popart.errors import OutOfMemoryError, OutOfMemoryException
from tensorflow_ipu.frontends.popart.optimizers.optimizer import Optimizer
from tensorflow_ipu.frontends.popart.options.patterns import Patterns
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.popxl_session import PopxlSession
from tensorflow_ipu.frontends.popart.sessions.inference import InferenceSessionCore
from tensorflow_ipu.frontends.popart.sessions.training import TrainingSessionCore
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

__all__ = ["InferenceSession", "OutOfMemoryException", "TrainingSession"]


class _Shared:
    """Methods of both kinds of session."""

    def initAnchorArrays(self: Any) -> dict[str, np.ndarray]:
        """Returns an array for each anchor.

        Raises:
            RuntimeError: If a period does not divide the batches of a step.
        """
        leading = (self.accumulationFactor, self.replicationFactor)
        return {
            name: _anchor_array(self.dataFlow, name, *leading, self.getInfo(name))
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


class InferenceSession(_Shared, InferenceSessionCore):
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
        _prepare(super().prepareDevice, loadEngine)

    def compileAndExport(self, filename: str) -> None:  # type: ignore[override]
        """Compiles the program and writes it to a file; see `saveExecutable`.

        Args:
            filename: the file, or a folder to put it into; folders that are missing are made.

        Raises:
            OutOfMemoryException: If it does not fit into the memory of the device.
            OSError: If the file cannot be written.
        """
        _prepare(super().compileAndExport, filename)

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


class TrainingSession(_Shared, TrainingSessionCore):
    """Trains a model on a device."""

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Optimizer,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo = InputShapeInfo(),
        patterns: Patterns | None = None,
        userOptions: SessionOptions = SessionOptions(),
        name: str = "training",
    ) -> None:
        """Makes everything but the program of the device.

        Args:
            fnModel: the bytes of a model, or its file.
            dataFlow: batches and anchors.
            loss: the tensor to make small.
            optimizer: the optimizer.
            deviceInfo: the device.
            inputShapeInfo: shapes that the model leaves open.
            patterns: which rewrites are on.
            userOptions: options.
            name: its name.

        Raises:
            popart_exception: If the model, the loss, an anchor or an option is not as it has to be.
        """
        super().__init__(
            fnModel,
            dataFlow,
            loss,
            optimizer,
            deviceInfo,
            inputShapeInfo,
            patterns or Patterns(),
            userOptions,
            name,
        )

    def prepareDevice(self, loadEngine: bool = True) -> None:  # type: ignore[override]
        """Compiles the program; see `TrainingSessionCore.prepareDevice`.

        Args:
            loadEngine: whether to load it too.

        Raises:
            OutOfMemoryException: If it does not fit into the memory of the device.
        """
        _prepare(super().prepareDevice, loadEngine)

    def compileAndExport(self, filename: str) -> None:  # type: ignore[override]
        """Compiles the program and writes it to a file; see `saveExecutable`.

        Args:
            filename: the file, or a folder to put it into; folders that are missing are made.

        Raises:
            OutOfMemoryException: If it does not fit into the memory of the device.
            OSError: If the file cannot be written.
        """
        _prepare(super().compileAndExport, filename)


def _prepare(prepare: Any, argument: Any) -> None:
    """Compiles a program; an error about memory is one of PopART's."""
    state = OutOfMemoryError()
    with eager_context.eager_mode():
        prepare(argument, state)
    if not state.isSuccessful():
        raise OutOfMemoryException(state)


def _anchor_array(
    flow: DataFlow, name: str, micro: int, replicas: int, info: TensorInfo
) -> np.ndarray:
    """Returns an array for the values of an anchor in one step."""
    batches, kind = flow.batchesPerStep(), flow.art(name)
    leading = [batches, micro]
    if kind.id() in (AnchorReturnTypeId.Final, AnchorReturnTypeId.Sum):
        leading = []
    elif kind.id() is AnchorReturnTypeId.EveryN:
        if batches % kind.rp():
            raise RuntimeError(
                f"Invalid anchor period of {name}: {kind.rp()} does not divide the batches per "
                f"step, {batches}."
            )
        leading[0] = batches // kind.rp()
    shape = [size for size in (*leading, replicas) if size != 1] + info.shape()
    return np.empty(shape, info.data_type_lcase())
