"""Files of named tensors, for moving data and variables between programs.

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

_FORMAT = "tensorflow_ipu tensors"
_VERSION = 1
_INDEX = "index.json"


class Kind(str, enum.Enum):
    """What a tensor in a file is to a program."""

    INPUT = "input"
    PARAMETER = "parameter"
    INFEED = "infeed"


@dataclass(frozen=True)
class TensorInfo:
    """What a file says of a tensor besides its value.

    Attributes:
        name: Its name.
        kind: What it is to a program.
        dtype: TensorFlow name of its type.
        shape: Its shape. For an infeed stream, the first dimension counts elements.
    """

    name: str
    kind: Kind
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_json(cls, entry: dict[str, Any], kind: Kind | None = None) -> TensorInfo:
        """Reads an entry of an index, or of a list of tensors of one kind."""
        return cls(
            entry["name"], kind or Kind(entry["kind"]), entry["dtype"], tuple(entry["shape"])
        )

    def describe(self) -> str:
        """Returns the name, type and shape for a message."""
        return f"{self.name}: {self.dtype}{list(self.shape)}"


def write(
    filename: str | os.PathLike[str], tensors: Iterable[tuple[str, Kind, npt.NDArray[Any]]]
) -> int:
    """Writes a file, replacing any that is there.

    Args:
        filename: Where to.
        tensors: Name, kind and value of each tensor.

    Returns:
        Size of the file in bytes.

    Raises:
        ValueError: If two tensors have one name, or a tensor holds no numbers.
    """
    entries: list[dict[str, Any]] = []
    with zipfile.ZipFile(filename, "w", zipfile.ZIP_STORED) as archive:
        for name, kind, value in tensors:
            if any(entry["name"] == name for entry in entries):
                raise ValueError(f"There are two tensors called '{name}' to write to {filename}.")
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
    tensors: Sequence[tuple[str, Kind, npt.NDArray[Any]]],
    print_stats: bool,
) -> None:
    """Writes a file, and prints what was written if `print_stats`; otherwise like `write`."""
    size = write(filename, tensors)
    if print_stats:
        print(f"Wrote {len(tensors)} tensors, {size} bytes, to {os.fspath(filename)}")


def _storable(name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array that the `.npy` format can hold."""
    if value.dtype.kind in "OUS":
        raise ValueError(f"The tensor '{name}' holds text; only numbers can be written.")
    return value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "V" else value


def _index(archive: zipfile.ZipFile, filename: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the entries of an open file.

    Raises:
        ValueError: If it is of another format or version.
    """
    try:
        index = json.loads(archive.read(_INDEX))
    except KeyError:
        index = {}
    if index.get("format") != _FORMAT or index.get("version") != _VERSION:
        raise ValueError(
            f"{filename} is not a file of tensors in version {_VERSION} of the format that "
            "ipu.utils.export_* functions write."
        )
    return list(index["tensors"])


def _open(filename: str | os.PathLike[str]) -> zipfile.ZipFile:
    """Opens a file for reading.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is no archive.
    """
    try:
        return zipfile.ZipFile(filename)
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"{filename} is not a file that the ipu.utils.export_* functions wrote: {error}."
        ) from None


def read_index(filename: str | os.PathLike[str]) -> list[TensorInfo]:
    """Returns what tensors a file holds, in the order they were written.

    Args:
        filename: A file that `write` made.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it was not made by `write`.
    """
    with _open(filename) as archive:
        return [TensorInfo.from_json(entry) for entry in _index(archive, filename)]


def read_tensor(filename: str | os.PathLike[str], name: str) -> npt.NDArray[Any]:
    """Returns the value of one tensor of a file.

    Args:
        filename: A file that `write` made.
        name: Name of the tensor.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it was not made by `write`, or has no such tensor.
    """
    with _open(filename) as archive:
        for entry in _index(archive, filename):
            if entry["name"] == name:
                content = io.BytesIO(archive.read(entry["member"]))
                stored: npt.NDArray[Any] = np.load(content, allow_pickle=False)
                return stored.view(dtypes.as_dtype(entry["dtype"]).as_numpy_dtype)
    raise ValueError(f"There is no tensor '{name}' in {filename}.")
