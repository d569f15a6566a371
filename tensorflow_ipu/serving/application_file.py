"""Files of compiled applications.

A file is an Executable's (`compiler/store.py`) with more members: `application.json`, the input and
output tensors, `program.pb`, the functions that the host runs, as a serialised
`FunctionDefLibrary`, and a NumPy `.npy` file for each value that is part of the application.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import dtypes, tensor_shape
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu.compiler import store
from tensorflow_ipu.serving.application import Application, ApplicationArgument, Specs
from tensorflow_ipu.util import archives

_FORMAT = 1
_DESCRIPTION, _PROGRAM = "application.json", "program.pb"
_WHAT = "an application that tensorflow_ipu compiled"


def save(application: Application, path: str | os.PathLike[str]) -> None:
    """Writes an application that was compiled in this process.

    Args:
        application: the application.
        path: the file; an existing one is replaced.

    Raises:
        OSError: If it cannot be written.
        ValueError: If the application was read from a file.
    """
    if application.executable is None:
        raise ValueError(f"The application was read from a file: copy that to {os.fspath(path)}.")
    members = {
        _DESCRIPTION: json.dumps(_describe(application), indent=1).encode(),
        _PROGRAM: application.library.SerializeToString(deterministic=True),
    }
    for index, argument in enumerate(application.arguments):
        if argument.value is not None:
            stream = io.BytesIO()
            np.save(stream, argument.value, allow_pickle=False)
            members[_member(index)] = stream.getvalue()
    store.save(application.executable, Path(path), members)


def load(path: str | os.PathLike[str]) -> Application:
    """Reads an application.

    Args:
        path: a file that `save` wrote.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is none of ours, is damaged, or is of another format.
    """
    with archives.reading(path, _WHAT) as archive:
        description = archives.read_json(archive, _DESCRIPTION)
        if description.get("format") != _FORMAT:
            raise ValueError(
                f"its format is {description.get('format')!r}, and this release reads {_FORMAT}. "
                "Compile it again"
            )
        try:
            library = function_pb2.FunctionDefLibrary.FromString(archive.read(_PROGRAM))
        except DecodeError as error:
            raise ValueError(f"{_PROGRAM} has no functions ({error})") from error
        return _read(archive, description, library)


def _member(index: int) -> str:
    return f"values/{index}.npy"


def _describe(application: Application) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "fingerprint": application.fingerprint,
        "entry": application.entry,
        "replicas": application.replicas,
        "arguments": [
            {
                **_describe_spec(argument.spec),
                "is_variable": argument.is_variable,
                "has_value": argument.value is not None,
            }
            for argument in application.arguments
        ],
        "infeeds": [list(map(_describe_spec, infeed)) for infeed in application.infeeds],
        "outfeeds": [list(map(_describe_spec, outfeed)) for outfeed in application.outfeeds],
        "results": list(map(_describe_spec, application.results)),
    }


def _describe_spec(spec: tensor_lib.TensorSpec) -> dict[str, Any]:
    shape = None if spec.shape.rank is None else spec.shape.as_list()
    return {"name": spec.name, "dtype": spec.dtype.name, "shape": shape}


def _read(
    archive: zipfile.ZipFile,
    description: dict[str, Any],
    library: function_pb2.FunctionDefLibrary,
) -> Application:
    entry = str(description["entry"])
    if entry not in {function.signature.name for function in library.function}:
        raise ValueError(f"{_PROGRAM} has no function {entry!r}")
    replicas = description["replicas"]
    if type(replicas) is not int or replicas < 1:
        raise ValueError(f"{replicas!r} is no number of replicas")
    return Application(
        str(description["fingerprint"]),
        entry,
        replicas,
        tuple(
            _read_argument(archive, index, item)
            for index, item in enumerate(description["arguments"])
        ),
        tuple(map(_read_specs, description["infeeds"])),
        tuple(map(_read_specs, description["outfeeds"])),
        _read_specs(description["results"]),
        library,
    )


def _read_argument(
    archive: zipfile.ZipFile, index: int, item: dict[str, Any]
) -> ApplicationArgument:
    (spec,) = _read_specs([item])
    value: npt.NDArray[Any] | None = None
    if item["has_value"]:
        value = np.load(io.BytesIO(archive.read(_member(index))), allow_pickle=False)
        if value.dtype != spec.dtype.as_numpy_dtype or not spec.shape.is_compatible_with(
            value.shape
        ):
            raise ValueError(f"the value of {spec.name} is {value.dtype}{list(value.shape)}")
    return ApplicationArgument(spec, bool(item["is_variable"]), value)


def _read_specs(items: list[dict[str, Any]]) -> Specs:
    return tuple(
        tensor_lib.TensorSpec(
            tensor_shape.TensorShape(item["shape"]), dtypes.as_dtype(item["dtype"]), item["name"]
        )
        for item in items
    )
