"""`TrainingSessionCore`: trains a model."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.distributed import transport
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.device_info import DeviceInfo
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import programs
from tensorflow_ipu.frontends.popart.lowering.loss_scales import FINAL
from tensorflow_ipu.frontends.popart.lowering.training import (
    ACCUMULATOR,
    GRADIENT,
    UPDATED,
    Training,
)
from tensorflow_ipu.frontends.popart.optimizers import clipping
from tensorflow_ipu.frontends.popart.optimizers.optimizer import Optimizer
from tensorflow_ipu.frontends.popart.options import checks
from tensorflow_ipu.frontends.popart.options.patterns import Patterns
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.sessions.core import SessionCore
from tensorflow_ipu.frontends.popart.stepio import InputShapeInfo
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

# Handle of the program of the forward passes only.
_FORWARD_ONLY = "implicitPipeliningFwdOnly"


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
        """Makes everything but the program; see `TrainingSession`.

        Args:
            model: its bytes, or its file.
            dataFlow: what a run returns, and how many batches it has.
            loss: id of the tensor that is made small.
            optimizer: how weights change.
            deviceInfo: the device.
            inputShapeInfo: shapes of inputs that the model does not say.
            patterns: transformations of the graph.
            userOptions: the options.
            name: name of the session.
        """
        self._name = name
        scale = userOptions.automaticLossScalingSettings
        self._training = Training(
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
        checks.check_loss_scaling(userOptions)
        self._training.check()
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
            scalars = {} if self._is_synthetic else self._training.scalars(arg0)
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
        if transport.count() > 1:
            with eager_context.eager_mode():
                for name, value in self._host.values.items():
                    meeting = f"popart_weights_{name}"
                    sent = transport.from_instance(tf.constant(value), rootRank, meeting)
                    value[...] = sent.numpy()

    def _other_program(self, handle: str) -> programs.Program:
        """Returns a program beside the main one: of the forward passes of a pipeline."""
        is_there = self._options.createImplicitPipeliningFwdOnlyProgram
        if handle != _FORWARD_ONLY or not is_there:
            return super()._other_program(handle)
        main = self._ready()
        if handle not in self._further:
            anchors = [name for name in self._flow.anchors() if not name.startswith(GRADIENT)]
            kinds = {name: self._flow.art(name) for name in anchors}
            flow = DataFlow(self._flow.batchesPerStep(), kinds)
            step = dataclasses.replace(self._step(), data_flow=flow, is_forward_only=True)
            with eager_context.eager_mode():
                self._further[handle] = programs.Program(
                    step, {}, self._device.ordinal, main.variables
                )
        return self._further[handle]

    def _wanted(self, proto: Any) -> list[str]:
        return [*super()._wanted(proto), self._training.loss]

    def _initial_state(self) -> dict[str, np.ndarray]:
        weights = self._model.weights
        self._training = self._training.for_weights(
            {name: weights[name] for name in self._survey.trained}
        )
        clipping.groups_of(self._training.optimizer.clip_norm_settings, self._training.trained)
        groups = self._groupings
        given = self._model.states
        state = self._training.state(weights, {n: len(g.groups()) for n, g in groups.items()})
        self._groupings = {
            **groups,
            **{name: groups[of] for name in state if (of := name.partition("___")[2]) in groups},
        }
        return {name: given.get(name, value) for name, value in state.items()}

    def _scalars(self) -> dict[str, np.ndarray]:
        training = self._training
        return {**super()._scalars(), **training.scalars(), **training.kept_scalars()}

    def _made_each_time(self) -> dict[str, TensorInfo]:
        made = {UPDATED + name: self._survey.infos[name] for name in self._training.trained}
        if self._training.scale is not None:
            made[FINAL] = TensorInfo("FLOAT", [])
        return {**super()._made_each_time(), **made}

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
        return {name: value for name, value in super()._streamed().items() if name not in kept}

    def _needs_upload(self) -> bool:
        return self._must_upload and bool(self._host.values)
