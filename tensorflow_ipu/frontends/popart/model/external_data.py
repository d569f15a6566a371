"""Values of weights that are kept in files beside a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import external_data_helper, numpy_helper

from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.model import tensors as typed
from tensorflow_ipu.util import private_files

# Fields of a tensor for values inside the model.
_FIELDS = ("raw_data", "float_data", "double_data", "int32_data", "int64_data", "uint64_data")


def save(graph: onnx.GraphProto, ids: Sequence[str], path: Path) -> None:
    """Moves values of weights into a file.

    Args:
        graph: the graph with the weights.
        ids: the weights.
        path: the file; one that is there is replaced.

    Raises:
        popart_exception: If one is no weight or is in a file already, or the folder is missing.
        OSError: If the file cannot be written.
    """
    if not path.parent.is_dir():
        raise popart_exception(
            f"Cannot save to {path}: its parent directory does not exist. Make it first."
        )
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for name in ids:
        if name not in tensors:
            raise popart_exception(
                f"Tensor {name} is not an initializer. There are: {', '.join(tensors) or 'none'}."
            )
        if tensors[name].data_location == onnx.TensorProto.EXTERNAL:
            raise popart_exception(f"Tensor {name} already has an external data_location.")
    data = b""
    for name in ids:
        raw = typed.value(tensors[name]).tobytes()
        _point(tensors[name], str(path), len(data), len(raw))
        data += raw
    private_files.write_bytes(path, data)


def relocate(graph: onnx.GraphProto, source: str, target: str) -> None:
    """Moves values of weights from one file to another.

    Args:
        graph: the graph with the weights, which then say where the values are.
        source: the file that they are in.
        target: the file that they come to.

    Raises:
        popart_runtime_error: If a file is missing or in the way, or none of the values is in it.
    """
    if os.path.exists(target):
        raise popart_runtime_error(f"The file {target} exists already. Choose another name.")
    if not os.path.isfile(source):
        raise popart_runtime_error(f"The file {source} does not exist.")
    tensors = [tensor for tensor in graph.initializer if _location(tensor) == source]
    if not tensors:
        raise popart_runtime_error(f"No tensor of the model is stored in {source}.")
    private_files.write_bytes(target, Path(source).read_bytes())
    os.unlink(source)
    for tensor in tensors:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = target


def _location(tensor: onnx.TensorProto) -> str:
    return next((e.value for e in tensor.external_data if e.key == "location"), "")


def check_folder(graph: onnx.GraphProto, filename: str) -> None:
    """Refuses to write a model into another folder than that of the files with its weights.

    Args:
        graph: the graph with the weights.
        filename: the file of the model.

    Raises:
        popart_exception: If a file is in another folder.
    """
    folder = Path(filename).resolve().parent
    for location in filter(None, map(_location, graph.initializer)):
        if Path(location).resolve().parent != folder:
            raise popart_exception(
                f"Unrecognised file name '{filename}': weights of the model are in {location}, and "
                "the model has to be written into the same folder."
            )


def check_files(graph: onnx.GraphProto) -> None:
    """Refuses a graph whose weights are in files that are not there.

    Args:
        graph: the graph with the weights.

    Raises:
        RuntimeError: If a file is missing.
    """
    for tensor in graph.initializer:
        location = _location(tensor)
        if location and not os.path.isfile(location):
            raise RuntimeError(
                f"Data of the tensor {tensor.name} should be stored in {location}, but it doesn't "
                "exist or is not accessible. Relative paths are those of the current directory."
            )


def value_of(tensor: onnx.TensorProto) -> np.ndarray:
    """Returns the value of a weight, from its file if it is in one.

    Args:
        tensor: the weight.

    Raises:
        popart_exception: If the file cannot be read.
    """
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return typed.value(tensor)
    found = external_data_helper.ExternalDataInfo(tensor)
    if not os.path.isfile(found.location):
        raise popart_exception(
            f"The value of the tensor {tensor.name} is in a file of its own, but file "
            f"'{found.location}' does not exist. Relative paths are those of the current directory."
        )
    whole = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
    try:
        with open(found.location, "rb") as file:
            file.seek(found.offset or 0)
            whole.raw_data = file.read(found.length or -1)
        return numpy_helper.to_array(whole)
    except (OSError, ValueError) as error:
        raise popart_exception(
            f"Cannot read the value of the tensor {tensor.name} from {found.location}: {error}"
        ) from error


def load(tensor: onnx.TensorProto) -> None:
    """Brings the value of a weight from its file into the model.

    Args:
        tensor: the weight; nothing happens to one that has its value.

    Raises:
        popart_exception: If the file cannot be read.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        name = tensor.name
        tensor.CopyFrom(typed.made(value_of(tensor), name))


def write(tensors: Sequence[onnx.TensorProto], values: Mapping[str, np.ndarray]) -> None:
    """Writes the files of weights anew, with other values.

    Args:
        tensors: the weights that are in files; they then say where their values are.
        values: the values by name.

    Raises:
        OSError: If a file cannot be written.
    """
    by_file: dict[str, list[onnx.TensorProto]] = {}
    for tensor in tensors:
        by_file.setdefault(_location(tensor), []).append(tensor)
    for location, group in by_file.items():
        data = b""
        for tensor in group:
            raw = values[tensor.name].tobytes()
            _point(tensor, location, len(data), len(raw))
            data += raw
        private_files.write_bytes(location, data)


def _point(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    """Replaces the value of a tensor by its place in a file."""
    for field in _FIELDS:
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
