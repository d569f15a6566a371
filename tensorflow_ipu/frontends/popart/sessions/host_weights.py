"""`HostWeights`: the host's values of weights and optimizer state, and their transfers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.distributed import transport
from tensorflow_ipu.frontends.popart.errors import (
    popart_internal_exception,
    popart_runtime_error,
)
from tensorflow_ipu.frontends.popart.lowering.training import ACCUMULATOR
from tensorflow_ipu.frontends.popart.model import onnx_files
from tensorflow_ipu.frontends.popart.stepio import IWeightsIO
from tensorflow_ipu.util import private_files


class HostWeights:
    """The host's values of weights and optimizer state.

    Attributes:
        values: The values by id: weights, then the state of the optimizer.
        must_upload: Whether the device lacks these values.
        is_in_sync: Whether host and device have the same values.
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray],
        returned: Mapping[str, Sequence[int]],
        streamed: Collection[str],
    ) -> None:
        """Copies the values at the start.

        Args:
            values: the values by id.
            returned: the group of each replica, for weights that all replicas return.
            streamed: the ids of values that move between host and device.
        """
        self.values = {name: np.array(value) for name, value in values.items()}
        self.must_upload = True
        self.is_in_sync = True
        self._returned = dict(returned)
        self._streamed = streamed

    def __repr__(self) -> str:
        return f"HostWeights[{len(self.values)}]"

    def upload(self, variables: Mapping[str, tf.Variable]) -> None:
        """Brings the values to the device.

        Args:
            variables: the variables of the program, by id.
        """
        with eager_context.eager_mode():
            for name in self._streamed:
                variables[name].assign(self.values[name])
        self.must_upload = False
        self.is_in_sync = True

    def download(self, variables: Mapping[str, tf.Variable]) -> None:
        """Brings the device's values to the host.

        Args:
            variables: the variables of the program, by id.
        """
        with eager_context.eager_mode():
            for name in self._streamed:
                self.values[name][...] = variables[name].numpy()
        self.is_in_sync = True

    def broadcast(self, rank: int) -> None:
        """Gives the values of one process to all.

        Args:
            rank: number of the process.
        """
        if transport.count() > 1:
            with eager_context.eager_mode():
                for name, value in self.values.items():
                    meeting = f"popart_weights_{name}"
                    value[...] = transport.from_instance(tf.constant(value), rank, meeting).numpy()

    def read(self, weights: IWeightsIO) -> None:
        """Writes the values into the user's arrays.

        Args:
            weights: the arrays; arrays of unknown weights do not change.

        Raises:
            popart_runtime_error: If an array has another size.
        """
        for name, target in weights.weights.items():
            if name not in self.values:
                continue
            value = self._read(name)
            if target.nbytes != value.nbytes:
                raise popart_runtime_error(
                    f"The sizes (in bytes) of src and dst for tensor {name} differ: {value.nbytes} "
                    f"and {target.nbytes}. It is {value.dtype} of the shape {list(value.shape)}."
                )
            target.reshape(-1)[:] = value.reshape(-1).view(target.dtype)

    def _read(self, name: str) -> np.ndarray:
        """Returns a value in the layout that users read."""
        value, groups = self.values[name], self._returned.get(name)
        if groups is None:
            return value
        rows = value if len(set(groups)) > 1 else value[np.newaxis]
        return np.ascontiguousarray(rows[list(groups)])

    def write(self, weights: IWeightsIO) -> None:
        """Takes the values of the user's arrays.

        Args:
            weights: the arrays; arrays of unknown weights are ignored.

        Raises:
            popart_internal_exception: If an array has another shape or type.
        """
        for name, array in weights.weights.items():
            if name not in self.values:
                continue
            value = self.values[name]
            if array.shape != value.shape or array.dtype != value.dtype:
                raise popart_internal_exception(
                    f"The data for tensor {name}, {array.dtype} of the shape {list(array.shape)}, "
                    f"does not not match the expected write region: {value.dtype} of the shape "
                    f"{list(value.shape)}."
                )
            value[...] = array

    def reset(self, model: Any, ignores_unknown: bool) -> None:
        """Takes the values of the weights of a model.

        Args:
            model: its bytes or its file.
            ignores_unknown: whether unknown weights are ignored instead of refused.

        Raises:
            popart_runtime_error: If a weight is unknown, or has another shape or type.
        """
        for tensor in onnx_files.load(model).graph.initializer:
            if tensor.name not in self.values:
                if ignores_unknown:
                    continue
                raise popart_runtime_error(f"resetWeights, no tensor '{tensor.name}' in tensors")
            array, value = onnx_files.value_of(tensor), self.values[tensor.name]
            if array.shape != value.shape or array.dtype != value.dtype:
                raise popart_runtime_error(
                    f"resetHostWeights: non matching tensor info for {tensor.name}: {array.dtype} "
                    f"{list(array.shape)} and {value.dtype} {list(value.shape)}."
                )
            value[...] = array
        self.must_upload = True

    def save(self, model: onnx.ModelProto, filename: str) -> None:
        """Writes a model with these values.

        Args:
            model: the model, which is not changed.
            filename: the file.

        Raises:
            popart_exception: If values of the model are in a file of another folder.
            OSError: If it cannot be written.
        """
        saved = onnx.ModelProto()
        saved.CopyFrom(model)
        known = {tensor.name: tensor for tensor in saved.graph.initializer}
        onnx_files.check_folder(saved.graph, filename)
        outside = []
        for name, value in self._in_order(saved.graph).items():
            if name.startswith(ACCUMULATOR):
                continue
            tensor = known.get(name) or saved.graph.initializer.add(name=name)
            owner = known.get(name.partition("___")[2], tensor)
            if owner.data_location == onnx.TensorProto.EXTERNAL:
                # State goes into the file of its weight.
                outside.append(tensor)
                tensor.data_type, tensor.data_location = _type_number(value), owner.data_location
                if tensor is not owner:
                    tensor.dims.extend(value.shape)
                    tensor.external_data.extend(owner.external_data)
            elif name not in known or not np.array_equal(onnx_files.value(tensor), value):
                tensor.CopyFrom(onnx_files.made(value, name))
        onnx_files.write(outside, self.values)
        private_files.write_bytes(filename, saved.SerializeToString())

    def _in_order(self, graph: onnx.GraphProto) -> dict[str, np.ndarray]:
        """Returns the values in the order of a model: weights, then each kind of their state."""
        places = {tensor.name: place for place, tensor in enumerate(graph.initializer)}
        kinds = dict.fromkeys(name.partition("___")[0] for name in self.values if "___" in name)
        prefixes = list(kinds)

        def key(name: str) -> tuple[int, int]:
            prefix, _, weight = name.partition("___")
            if name in places and weight not in places:
                return -1, places[name]
            return prefixes.index(prefix) if weight else -1, places.get(weight, len(places))

        return {name: self.values[name] for name in sorted(self.values, key=key)}


def _type_number(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))
