"""`HostWeights`: the host's values of weights and optimizer state, and the model that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tensorflow_ipu import private_files
from tensorflow_ipu.frontends.popart.debugging.context import remove_lines
from tensorflow_ipu.frontends.popart.errors import (
    popart_internal_exception,
    popart_runtime_error,
)
from tensorflow_ipu.frontends.popart.lowering.training import ACCUMULATOR
from tensorflow_ipu.frontends.popart.model import external_data, loading
from tensorflow_ipu.frontends.popart.stepio import IWeightsIO


class HostWeights:
    """The host's values.

    Attributes:
        values: Those of weights, then of the state of the optimizer, by id.
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray],
        returned: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Takes the values at the start, which are copied.

        Args:
            values: the values by id.
            returned: for what all replicas return, the group of each replica.
        """
        self.values = {name: np.array(value) for name, value in values.items()}
        self._returned = dict(returned or {})

    def __repr__(self) -> str:
        return f"HostWeights[{len(self.values)}]"

    def read(self, weights: IWeightsIO) -> None:
        """Writes the values into arrays of the user's.

        Args:
            weights: the arrays; those of unknown weights stay as they are.

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
        """Returns what users read of a value."""
        value, groups = self.values[name], self._returned.get(name)
        if groups is None:
            return value
        rows = value if len(set(groups)) > 1 else value[np.newaxis]
        return np.ascontiguousarray(rows[list(groups)])

    def write(self, weights: IWeightsIO) -> None:
        """Takes values from arrays of the user's.

        Args:
            weights: the arrays; those of unknown weights do not count.

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
            ignores_unknown: whether weights that are not here do not count.

        Raises:
            popart_runtime_error: If there are others, or of other shapes or types.
        """
        for tensor in loading.load(model).graph.initializer:
            if tensor.name not in self.values:
                if ignores_unknown:
                    continue
                raise popart_runtime_error(
                    f"resetHostWeights: no tensor '{tensor.name}' in tensors of the session: "
                    f"{', '.join(self.values)}."
                )
            array, value = external_data.value_of(tensor), self.values[tensor.name]
            if array.shape != value.shape or array.dtype != value.dtype:
                raise popart_runtime_error(
                    f"resetHostWeights: non matching tensor info for {tensor.name}: {array.dtype} "
                    f"{list(array.shape)} and {value.dtype} {list(value.shape)}."
                )
            value[...] = array

    def save(self, model: onnx.ModelProto, filename: str) -> None:
        """Writes a model with these values.

        Args:
            model: the model, which is not changed.
            filename: the file.

        Raises:
            OSError: If it cannot be written.
        """
        saved = onnx.ModelProto()
        saved.CopyFrom(model)
        remove_lines(saved.graph)
        tensors = {tensor.name: tensor for tensor in saved.graph.initializer}
        outside = []
        for name, value in self.values.items():
            if name.startswith(ACCUMULATOR):
                continue
            tensor = tensors.get(name) or saved.graph.initializer.add(name=name)
            owner = tensors.get(name.partition("___")[2], tensor)
            if owner.data_location == onnx.TensorProto.EXTERNAL:
                # State goes into the file of its weight.
                outside.append(tensor)
                tensor.data_type, tensor.data_location = _type_number(value), owner.data_location
                if tensor is not owner:
                    tensor.dims.extend(value.shape)
                    tensor.external_data.extend(owner.external_data)
            else:
                tensor.CopyFrom(numpy_helper.from_array(value, name))
        external_data.write(outside, self.values)
        private_files.write_bytes(filename, saved.SerializeToString())


def _type_number(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))
