"""Models read from bytes or files."""

from __future__ import annotations

import os
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import checker, defs, helper

from tensorflow_ipu.frontends.popart.errors import popart_exception

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
