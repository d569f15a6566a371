"""`PopxlSession`: an Ir of PopXL behind the methods of an `InferenceSession`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.devices import DeviceInfo
from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.stepio import IStepIO
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.frontends.popxl.ir import Ir
from tensorflow_ipu.frontends.popxl.session import Session


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
