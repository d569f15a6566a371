"""`TrainingSession`: trains a model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.devices import DeviceInfo
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import programs
from tensorflow_ipu.frontends.popart.lowering.training import (
    Training,
)
from tensorflow_ipu.frontends.popart.optimizers.optimizer import Optimizer
from tensorflow_ipu.frontends.popart.patterns import Patterns
from tensorflow_ipu.frontends.popart.session import setup
from tensorflow_ipu.frontends.popart.session.core import (
    SessionAttributes,
    SessionCore,
    compile_or_raise,
)
from tensorflow_ipu.frontends.popart.session.setup import Setup
from tensorflow_ipu.frontends.popart.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo

# Handle of the program of the forward passes only.
_FORWARD_ONLY = "implicitPipeliningFwdOnly"


class TrainingSessionCore(SessionCore):
    """Trains a model."""

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
        """Makes everything but the program; see `TrainingSession`.

        Args:
            model: its bytes, or its file.
            dataFlow: batches and anchors.
            loss: id of the tensor that is made small.
            optimizer: how weights change.
            deviceInfo: the device.
            inputShapeInfo: shapes of inputs that the model does not say.
            patterns: transformations of the graph.
            userOptions: the options.
            name: name of the session.
        """
        scale = userOptions.automaticLossScalingSettings
        training = Training(
            loss,
            optimizer.copied(),
            {},
            userOptions.accumulationAndReplicationReductionType,
            userOptions.meanAccumulationAndReplicationReductionStrategy,
            userOptions.accumulation_factor,
            userOptions.getGlobalReplicationFactor(),
            userOptions.enableGradientAccumulation,
            copy.deepcopy(scale) if scale.enabled else None,
            userOptions.ensureFp32LossScaleTensor,
        )
        setup.check_loss_scaling(userOptions)
        training.check()
        super().__init__(
            Setup(
                name,
                model,
                dataFlow,
                deviceInfo,
                inputShapeInfo,
                patterns,
                userOptions,
                training,
            )
        )

    def getTensorIds(self) -> set[str]:
        """Returns the ids of all tensors."""
        return self._setup.tensor_ids()

    def updateOptimizerFromHost(self, arg0: Optimizer) -> None:
        """Takes the numbers of an optimizer that can change.

        Args:
            arg0: the optimizer.

        Raises:
            popart_runtime_error: If it cannot take the place of the one before, or the program is
                not loaded.
        """
        program = self._program.on_device()
        scalars = self._setup.scalars_of(arg0)
        if not self._setup.is_synthetic:
            with eager_context.eager_mode():
                for name, value in scalars.items():
                    program.variables[name].assign(value)

    def connectStreamToCallback(self, arg0: str, arg1: Callable[[Any], None], arg2: int) -> None:
        """Connects a stream of the device's own code to a function.

        Args:
            arg0: handle of the stream.
            arg1: the function.
            arg2: index of the replica.

        Raises:
            popart_exception: Always: only ops in code for the device make such streams, and there
                are none.
        """
        raise popart_exception(
            f"There is no stream '{arg0}': only ops that are written for the device's tiles make "
            "streams of their own. Use inputs and anchors."
        )

    def updateEngineCache(self) -> None:
        """Looks for compiled programs in the cache again: the next `prepareDevice` does."""

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """Gives the host's weights of one process to all.

        Args:
            rootRank: number of the process.
        """
        self._weights.broadcast(rootRank)

    def _other_program(self, handle: str) -> programs.SessionProgram:
        """Returns a program beside the main one: of the forward passes of a pipeline."""
        is_there = self._setup.options.createImplicitPipeliningFwdOnlyProgram
        if handle != _FORWARD_ONLY or not is_there:
            return super()._other_program(handle)
        self._ready()
        return self._program.forward_only(handle)


class TrainingSession(SessionAttributes, TrainingSessionCore):
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
