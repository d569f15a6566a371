"""Tools on model files: `GraphTransformer` and `NumericsReport`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tensorflow_ipu.frontends.popart import onnx_files
from tensorflow_ipu.frontends.popart.errors import popart_exception

_T = onnx.TensorProto
# Outputs of a batch normalization that is trained.
_TRAINED_OUTPUTS = 5
_INTEGERS = (_T.UINT8, _T.INT8, _T.UINT16, _T.INT16, _T.INT32, _T.INT64, _T.UINT32, _T.UINT64)


class GraphTransformer:
    """A model that is changed step by step."""

    def __init__(self, modelProtoOrFilename: Any) -> None:
        """Reads a model.

        Args:
            modelProtoOrFilename: its bytes or its file.

        Raises:
            popart_exception: If it cannot be read, or is not valid.
        """
        self._model = onnx_files.load_checked(modelProtoOrFilename)
        self._graph = self._model.graph

    def __repr__(self) -> str:
        return f"GraphTransformer[{self._graph.name} {len(self._graph.node)} nodes]"

    def getModelProto(self) -> bytes:
        """Returns the bytes of the model."""
        return bytes(self._model.SerializeToString())

    def removeUnusedInputs(self) -> None:
        """Removes inputs that no node takes, with their values."""
        taken = {name for node in self._graph.node for name in node.input}
        taken |= {value.name for value in self._graph.output}
        for values in (self._graph.input, self._graph.initializer):
            kept = [value for value in values if value.name in taken]
            del values[:]
            values.extend(kept)

    def prepareNodesForTraining(self) -> None:
        """Gives batch normalizations the outputs that they have in a training."""
        for number, node in enumerate(self._graph.node):
            if node.op_type == "BatchNormalization":
                for position in range(len(node.output), _TRAINED_OUTPUTS):
                    name = node.name or number
                    node.output.append(f"BatchNormalization_{name}_oi{position}_{number}")

    def convertFloatsToHalfs(self) -> None:
        """Changes FLOAT to FLOAT16."""
        self._convert(_T.FLOAT, np.float16)

    def convertDoublesToFloats(self) -> None:
        """Changes DOUBLE to FLOAT."""
        self._convert(_T.DOUBLE, np.float32)

    def convertDoublesToHalfs(self) -> None:
        """Changes DOUBLE to FLOAT16."""
        self._convert(_T.DOUBLE, np.float16)

    def convertBFloats16ToFloat32(self) -> None:
        """Changes BFLOAT16 to FLOAT."""
        self._convert(_T.BFLOAT16, np.float32)

    def convertUINT8ToINT32(self) -> None:
        """Changes UINT8 to INT32."""
        self._convert(_T.UINT8, np.int32)

    def convertUINT16ToINT32(self) -> None:
        """Changes UINT16 to INT32."""
        self._convert(_T.UINT16, np.int32)

    def convertINT8ToINT32(self) -> None:
        """Changes INT8 to INT32."""
        self._convert(_T.INT8, np.int32)

    def convertINT16ToINT32(self) -> None:
        """Changes INT16 to INT32."""
        self._convert(_T.INT16, np.int32)

    def convertINT64ToINT32(self, clip: bool = False) -> None:
        """Changes INT64 to INT32.

        Args:
            clip: whether numbers that do not fit become the nearest that do.

        Raises:
            popart_exception: If a number does not fit, and is not to be clipped.
        """
        limits = np.iinfo(np.int32)

        def narrowed(array: np.ndarray) -> np.ndarray:
            if not clip and ((array < limits.min) | (array > limits.max)).any():
                raise popart_exception(
                    "convertINT64ToINT32: a number is too large for INT32. Pass clip=True to take "
                    "the nearest."
                )
            return np.clip(array, limits.min, limits.max).astype(np.int32)

        self._convert(_T.INT64, np.int32, narrowed)

    def convertInitializersToConstants(self, ids: Iterable[str]) -> None:
        """Makes nodes of values of weights.

        Args:
            ids: the weights.

        Raises:
            popart_exception: If there is no such weight.
        """
        ids = list(ids)
        known = {tensor.name: tensor for tensor in self._graph.initializer}
        for name in ids:
            if name not in known:
                raise popart_exception(f"TensorId {name} not in the model initalizers")
        made = []
        for name in ids:
            node = onnx.NodeProto(op_type="Constant", output=[name])
            attribute = node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
            onnx_files.load_tensor(known[name])
            attribute.t.CopyFrom(known[name])
            made.append(node)
        nodes = [*made, *self._graph.node]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        for values in (self._graph.input, self._graph.initializer):
            kept = [value for value in values if value.name not in ids]
            del values[:]
            values.extend(kept)

    def convertAllFixedPointInitializersToConstants(self) -> None:
        """Makes nodes of the values of all weights that are integers."""
        self.convertInitializersToConstants(
            [tensor.name for tensor in self._graph.initializer if tensor.data_type in _INTEGERS]
        )

    def saveInitializersExternally(self, ids: Iterable[str], filename: str) -> None:
        """Moves values of weights into a file.

        Args:
            ids: the weights.
            filename: the file; one that is there is replaced.

        Raises:
            popart_exception: If one is no weight or is in a file already, or the folder is missing.
            OSError: If the file cannot be written.
        """
        onnx_files.save(self._graph, list(ids), Path(filename))

    def _convert(
        self, source: int, target: Any, change: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        """Changes the type of attributes, weights and declared tensors."""
        for tensor in self._tensors():
            if tensor.data_type == source:
                onnx_files.load_tensor(tensor)
                array = onnx_files.value(tensor)
                changed = change(array) if change else array.astype(target)
                tensor.CopyFrom(onnx_files.made(changed, tensor.name))
        number = int(helper.np_dtype_to_tensor_dtype(np.dtype(target)))
        for values in (self._graph.input, self._graph.output, self._graph.value_info):
            for value in values:
                if value.type.tensor_type.elem_type == source:
                    value.type.tensor_type.elem_type = number

    def _tensors(self) -> Iterator[onnx.TensorProto]:
        """Yields all tensors that have values."""
        yield from self._graph.initializer
        for node in self._graph.node:
            for attribute in node.attribute:
                if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
                    raise popart_exception(
                        f"Conversions need impl in subgraphs: {node.op_type} has the graph "
                        f"{attribute.name}. Build the model with the other type."
                    )
                if attribute.type == onnx.AttributeProto.TENSOR:
                    yield attribute.t
                yield from attribute.tensors


_FORMULA = "|dA - dB|^2 / (|dA||dB| + 1e-8)"
_SMALL = 1e-8


class NumericsReport:
    """The weights of two trainings, before and after."""

    def __init__(self, A0: Any, A1: Any, B0: Any, B1: Any) -> None:
        """Reads the models.

        Args:
            A0: model at the start of a training: its bytes or its file.
            A1: model at its end.
            B0: model at the start of another training.
            B1: model at its end.

        Raises:
            popart_exception: If they have other weights, or weights of types that are not compared.
        """
        sides = [_weights(model) for model in (A0, A1, B0, B1)]
        for other in sides[1:]:
            _check_equal(sides[0], other)
        self._errors: dict[str, float] = {}
        for before, after, before_b, after_b in zip(*sides):
            if before.data_type == onnx.TensorProto.FLOAT:
                a0, a1, b0, b1 = map(_array, (before, after, before_b, after_b))
                self._errors[before.name] = _relative_error(a1 - a0, b1 - b0)

    def __repr__(self) -> str:
        return f"NumericsReport[{len(self._errors)} weights]"

    def getRelativeErrors(self) -> dict[str, float]:
        """Returns how far the changes of each weight differ."""
        return dict(self._errors)

    def report(self, arg0: str) -> str:
        """Returns how far the changes of a weight differ, as text.

        Args:
            arg0: the weight.

        Raises:
            popart_exception: If it was not compared.
        """
        if arg0 not in self._errors:
            raise popart_exception(
                f"No report available for {arg0}. Compared were: {', '.join(self._errors)}."
            )
        return f"{_FORMULA}  = {self._errors[arg0]}"

    def fullReport(self) -> str:
        """Returns how far the changes of all weights differ, as text."""
        return "\n".join(f"{name} :\n   {self.report(name)}" for name in self._errors)


def _weights(model: Any) -> list[onnx.TensorProto]:
    found = list(onnx_files.load(model).graph.initializer)
    for tensor in found:
        name = onnx.TensorProto.DataType.Name(tensor.data_type)
        if "FLOAT" in name and name != "FLOAT" or name == "DOUBLE":
            raise popart_exception(f"NumericsReport compares FLOAT only. {tensor.name} is {name}.")
    return found


def _check_equal(first: list[onnx.TensorProto], other: list[onnx.TensorProto]) -> None:
    """Refuses models with other weights."""
    if len(first) != len(other):
        raise popart_exception(
            f"The models have a different number of initializers: {len(first)} and {len(other)}."
        )
    for a, b in zip(first, other):
        if a.name != b.name:
            raise popart_exception(f"Tensor names do not correspond: {a.name} and {b.name}.")
        if (a.data_type, list(a.dims)) != (b.data_type, list(b.dims)):
            raise popart_exception(f"TensorProto infos differ for {a.name}.")


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    onnx_files.load_tensor(tensor)
    return onnx_files.value(tensor).astype(np.float64)


def _relative_error(a: np.ndarray, b: np.ndarray) -> float:
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.sum((a - b) ** 2) / (norms + _SMALL))
