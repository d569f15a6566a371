"""ONNX models and their tensors, in bytes, files, and files of data beside a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import checker, defs, external_data_helper, helper, numpy_helper

from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.util import private_files

# --- Tensors ---

_T = onnx.TensorProto


# Types whose elements are in a field of floating-point numbers, which is laid out as the array is.
_PLAIN: Mapping[int, str] = {_T.FLOAT: "float_data", _T.DOUBLE: "double_data"}


_LONG: Mapping[int, str] = {
    _T.INT64: "int64_data",
    _T.UINT32: "uint64_data",
    _T.UINT64: "uint64_data",
}


_SHORT = frozenset({_T.INT32, _T.INT8, _T.UINT8, _T.INT16, _T.UINT16, _T.BOOL, _T.FLOAT16})


_BITS_OF_BYTE = 7


def made(array: np.ndarray, name: str = "") -> onnx.TensorProto:
    """Returns a tensor with the value of an array.

    Args:
        array: the value.
        name: name of the tensor.
    """
    number = int(helper.np_dtype_to_tensor_dtype(array.dtype))
    tensor = onnx.TensorProto(data_type=number, dims=array.shape)
    if name:
        tensor.name = name
    flat = np.ascontiguousarray(array).reshape(-1)
    if number in _PLAIN:
        if flat.size:
            # As the field is written: one copy, where `extend` takes the elements one by one.
            field = _T.DESCRIPTOR.fields_by_name[_PLAIN[number]].number
            data = flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
            tensor.MergeFromString(_varint(field << 3 | 2) + _varint(len(data)) + data)
    elif number in _LONG:
        getattr(tensor, _LONG[number]).extend(flat.tolist())
    elif number in _SHORT:
        bits = flat.view(np.uint16) if number == _T.FLOAT16 else flat.astype(np.int32, copy=False)
        tensor.int32_data.extend(bits.tolist())
    else:
        tensor.raw_data = flat.tobytes()
    return tensor


def value(tensor: onnx.TensorProto) -> np.ndarray:
    """Returns the value of a tensor that is not kept in a file of its own.

    Numbers of BFLOAT16, which NumPy lacks, are float32.

    Args:
        tensor: the tensor.
    """
    if tensor.data_type == _T.BFLOAT16:
        bits = np.frombuffer(tensor.raw_data, "<u2") if tensor.raw_data else tensor.int32_data
        wide = np.asarray(bits, np.uint32) << 16
        return wide.view(np.float32).reshape(tuple(tensor.dims))
    field = _PLAIN.get(tensor.data_type)
    if field is None or tensor.HasField("raw_data") or not getattr(tensor, field):
        return numpy_helper.to_array(tensor)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    alone = onnx.TensorProto()
    alone.CopyFrom(tensor)
    for present, _ in tensor.ListFields():
        if present.name != field:
            alone.ClearField(present.name)
    size = len(getattr(tensor, field)) * dtype.itemsize
    data = alone.SerializeToString()[-size:]
    array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    return array.reshape(tuple(tensor.dims))


def _varint(number: int) -> bytes:
    """Returns a number as files of protocol buffers hold it."""
    found = bytearray()
    while number >> _BITS_OF_BYTE:
        found.append(number & 0x7F | 0x80)
        number >>= _BITS_OF_BYTE
    return bytes([*found, number])


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
        raw = value(tensors[name]).tobytes()
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
    """Refuses to write a model into a folder without the files of its weights.

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
        return value(tensor)
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


def load_tensor(tensor: onnx.TensorProto) -> None:
    """Brings the value of a weight from its file into the model.

    Args:
        tensor: the weight; nothing happens to one that has its value.

    Raises:
        popart_exception: If the file cannot be read.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        name = tensor.name
        tensor.CopyFrom(made(value_of(tensor), name))


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


# --- Models ---

# Up to the newest that the package `onnx` knows.
_OPSETS = range(6, defs.onnx_opset_version() + 1)


def load(model: Any) -> onnx.ModelProto:
    """Returns a model. A session reports errors of its nodes.

    Args:
        model: its bytes, or the path of a file.

    Raises:
        popart_exception: If it cannot be read, or is of an opset that is not supported.
    """
    proto = onnx.ModelProto()
    if isinstance(model, onnx.ModelProto):
        proto.CopyFrom(model)
    else:
        proto.ParseFromString(_parsed(model))
    _check_opsets(proto)
    return proto


def load_checked(model: Any) -> onnx.ModelProto:
    """Returns a model that is valid by ONNX's rules.

    Args:
        model: its bytes, or the path of a file.

    Raises:
        popart_exception: If it cannot be read, or is not valid.
    """
    proto = load(model)
    check(proto)
    return proto


def check(model: onnx.ModelProto) -> None:
    """Refuses a model that ONNX refuses. Its weights may be in files of any path.

    Args:
        model: the model.

    Raises:
        popart_exception: If it is not valid.
    """
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    # Of outputs of some ops only sessions know the types.
    typed = [value for value in model.graph.output if value.HasField("type")]
    del checked.graph.output[:]
    checked.graph.output.extend(typed)
    _declare_external(checked.graph)
    try:
        checker.check_model(checked, check_custom_domain=False)
    except checker.ValidationError as error:
        raise popart_exception(f"The model is not valid: {error}") from error


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Returns the versions of the domains of a model; "" is the domain of ONNX.

    Args:
        model: the model.
    """
    return {
        "" if opset.domain == "ai.onnx" else opset.domain: opset.version
        for opset in model.opset_import
    }


def _parsed(model: Any) -> bytes:
    """Returns the bytes of a model, which can be parsed."""
    data = _content(model)
    try:
        if not onnx.ModelProto.FromString(data).HasField("graph"):
            raise DecodeError("there is no graph in it")
    except DecodeError as error:
        shown = model if isinstance(model, str) else f"{data[:40]!r}..."
        raise popart_exception(
            f"Failed to load a ModelProto from the string '{shown}': {error}. Check that "
            "it is either a valid path to an existing onnx model file, or is a valid onnx "
            "ModelProto string."
        ) from error
    return data


def _content(model: Any) -> bytes:
    """Returns bytes, or the content of the file that they or a text name."""
    if not isinstance(model, (str, bytes, os.PathLike)):
        raise TypeError(
            "A model is bytes or the path of a file: incompatible function arguments. Received: "
            f"{type(model).__name__}"
        )
    try:
        is_file = os.path.isfile(model)
    except ValueError:  # bytes that no path has
        is_file = False
    if is_file:
        with open(model, "rb") as file:
            return file.read()
    return model if isinstance(model, bytes) else os.fspath(model).encode()


def _check_opsets(model: onnx.ModelProto) -> None:
    """Refuses models of opsets that are not supported."""
    found = opsets(model)
    if not found:
        raise popart_exception("The model imports no opset. Models say which versions they are of.")
    version = found.get("", _OPSETS[-1])
    if version not in _OPSETS:
        raise popart_exception(
            f"Encountered ONNX opset version {version} in the model. Supported are "
            f"{_OPSETS[0]} to {_OPSETS[-1]}, the newest of the installed package onnx."
        )
    if found.get("ai.graphcore", 1) != 1:
        raise popart_exception(
            f"Encountered ai.graphcore opset version {found['ai.graphcore']}. Supported is 1."
        )


def _declare_external(graph: onnx.GraphProto) -> None:
    """Makes inputs of weights whose values are in files: the checker takes only some paths."""
    inputs = {value.name for value in graph.input}
    inside = [t for t in graph.initializer if t.data_location != onnx.TensorProto.EXTERNAL]
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL and tensor.name not in inputs:
            graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    del graph.initializer[:]
    graph.initializer.extend(inside)
