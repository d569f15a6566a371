"""The file format for named tensors, to move data and variables between programs.

A file is a zip archive without compression. It holds one NumPy `.npy` file per tensor, and
`index.json`:

    {"format": "tensorflow_ipu tensors", "version": 1,
     "tensors": [{"name": "w", "kind": "parameter", "dtype": "float32", "shape": [2, 3],
                  "member": "0.npy"}, ...]}

`dtype` is the TensorFlow name. A type that NumPy lacks (bfloat16) is stored as the unsigned
integers with its bits.
"""

from __future__ import annotations

import enum
import io
import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorflow.python.framework import dtypes

from tensorflow_ipu.util import archives, private_files

_FORMAT = "tensorflow_ipu tensors"
_VERSION = 1
_INDEX = "index.json"
_WHAT = "a file of tensors that ipu.utils.export_* functions wrote"


class TensorKind(str, enum.Enum):
    """The role of a tensor in a file: input, parameter or element of an infeed."""

    INPUT = "input"
    PARAMETER = "parameter"
    INFEED = "infeed"


@dataclass(frozen=True)
class TensorInfo:
    """Name, kind, type and shape of a tensor in a file.

    Attributes:
        name: Its name.
        kind: Its role in a program.
        dtype: TensorFlow name of its type.
        shape: Its shape. For an infeed stream, the first dimension counts elements.
    """

    name: str
    kind: TensorKind
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_json(cls, entry: dict[str, Any], kind: TensorKind | None = None) -> TensorInfo:
        """Reads an entry of an index, or of a list of tensors of one kind.

        Args:
            entry: the entry, as JSON has it.
            kind: role of the tensors of the list; None if each entry has it.

        Raises:
            ValueError: If it is no such entry.
        """
        try:
            name, shape = entry["name"], entry["shape"]
            kind = kind or TensorKind(entry["kind"])
            dtype = dtypes.as_dtype(entry["dtype"]).name
        except (KeyError, TypeError) as error:
            raise ValueError(f"{entry!r} does not describe a tensor: {error}") from error
        sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
        if not isinstance(name, str) or not sizes:
            raise ValueError(f"{entry!r} does not describe a tensor: name or shape is none")
        return cls(name, kind, dtype, tuple(shape))

    def describe(self) -> str:
        """Returns the name, type and shape for a message."""
        return f"{self.name}: {self.dtype}{list(self.shape)}"


def write(
    filename: str | os.PathLike[str], tensors: Iterable[tuple[str, TensorKind, npt.NDArray[Any]]]
) -> int:
    """Writes a file, replacing any that is there.

    Args:
        filename: the target file.
        tensors: name, kind and value of each tensor.

    Returns:
        Size of the file in bytes.

    Raises:
        OSError: If the file cannot be written; an earlier file is unchanged.
        ValueError: If two tensors have one name, or a tensor holds no numbers.
    """
    entries: list[dict[str, Any]] = []
    with private_files.replacing(filename) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, kind, value in tensors:
                if any(entry["name"] == name for entry in entries):
                    raise ValueError(f"There are two tensors called '{name}' for {filename}.")
                dtype = dtypes.as_dtype(value.dtype)
                member = f"{len(entries)}.npy"
                with archive.open(member, "w", force_zip64=True) as stream:
                    np.save(stream, _storable(name, value), allow_pickle=False)
                entry = {"name": name, "kind": kind.value, "dtype": dtype.name}
                entries.append({**entry, "shape": list(value.shape), "member": member})
            index = {"format": _FORMAT, "version": _VERSION, "tensors": entries}
            archive.writestr(_INDEX, json.dumps(index, indent=1))
    return os.path.getsize(filename)


def write_and_report(
    filename: str | os.PathLike[str],
    tensors: Sequence[tuple[str, TensorKind, npt.NDArray[Any]]],
    print_stats: bool,
) -> None:
    """Writes a file as `write` does, and prints a summary if `print_stats`."""
    size = write(filename, tensors)
    if print_stats:
        print(f"Wrote {len(tensors)} tensors, {size} bytes, to {os.fspath(filename)}")


def _storable(name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array that the `.npy` format can hold."""
    if value.dtype.kind in "OUS":
        raise ValueError(f"The tensor '{name}' holds text; only numbers can be written.")
    return value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "V" else value


def _index(archive: zipfile.ZipFile) -> list[dict[str, Any]]:
    """Returns the entries of an open file.

    Raises:
        ValueError: If it is of another format or version.
    """
    index = archives.read_json(archive, _INDEX)
    if index.get("format") != _FORMAT or index.get("version") != _VERSION:
        raise ValueError(f"{_INDEX} does not say that it is '{_FORMAT}', version {_VERSION}")
    return list(index["tensors"])


def read_index(filename: str | os.PathLike[str]) -> list[TensorInfo]:
    """Returns the index of a file: its tensors in the order they were written.

    Args:
        filename: a file that `write` made.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it was not made by `write`, or is damaged.
    """
    with archives.reading(filename, _WHAT) as archive:
        return [TensorInfo.from_json(entry) for entry in _index(archive)]


def read_tensor(filename: str | os.PathLike[str], name: str) -> npt.NDArray[Any]:
    """Returns the value of one tensor of a file.

    Args:
        filename: a file that `write` made.
        name: name of the tensor.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it was not made by `write`, is damaged, or has no such tensor.
    """
    with archives.reading(filename, _WHAT) as archive:
        for entry in _index(archive):
            info = TensorInfo.from_json(entry)
            if info.name == name:
                return _value(archive.read(entry["member"]), info)
    raise ValueError(f"There is no tensor '{name}' in {filename}.")


def _value(content: bytes, info: TensorInfo) -> npt.NDArray[Any]:
    """Returns the tensor in the content of an `.npy` file."""
    stored: npt.NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    value = stored.view(dtypes.as_dtype(info.dtype).as_numpy_dtype)
    if value.shape != info.shape:
        raise ValueError(f"{info.name} has the shape {list(value.shape)}, not {list(info.shape)}")
    return value
