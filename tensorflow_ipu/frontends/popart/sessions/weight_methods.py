"""`WeightMethods`: moves weights between the device, the host, arrays and models."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.frontends.common import logs
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.model import external_data
from tensorflow_ipu.frontends.popart.sessions.base import SessionBase
from tensorflow_ipu.frontends.popart.stepio import IWeightsIO


class WeightMethods(SessionBase):
    """The methods of a session that move weights."""

    def weightsFromHost(self) -> None:
        """Brings the host's values of weights to the device.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        program = self._loaded()
        logs.Logger("devicex").debug(f"Writing weights from host, {len(self._host.values)} tensors")
        with eager_context.eager_mode():
            for name, value in self._streamed().items():
                program.variables[name].assign(value)
        self._must_upload = False
        self._is_in_sync = True

    def weightsToHost(self) -> None:
        """Brings the device's values of weights to the host.

        Raises:
            popart_runtime_error: If the program is not loaded.
        """
        program = self._loaded()
        with eager_context.eager_mode():
            for name, value in self._streamed().items():
                value[...] = program.variables[name].numpy()
        logs.Logger("devicex").debug("Writing weights to host complete.")
        self._is_in_sync = True

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
            popart_runtime_error: If there is no compiled program.
            OSError: If it cannot be written.
        """
        if self._executable is None:
            raise popart_runtime_error(
                "Devicex::prepare() must be called before Devicex::weightsToHost() is called. Call "
                "prepareDevice."
            )
        if self._program is not None and not self._must_upload:
            self.weightsToHost()
        self._host.save(self._model.proto, arg0)

    def updateExternallySavedTensorLocations(self, arg0: str, arg1: str) -> None:
        """Moves values of weights of the model from one file to another.

        Args:
            arg0: the file that they are in.
            arg1: the file that they come to, which is not there yet.

        Raises:
            popart_runtime_error: If a file is missing or in the way, or none of the values is in
                it.
        """
        external_data.relocate(self._model.proto.graph, arg0, arg1)

    def _streamed(self) -> dict[str, np.ndarray]:
        """Returns the host's values that move to and from the device."""
        return {} if self._is_synthetic else self._host.values
