"""Executables as files: the disk cache and the serialisation folder.

A file is a zip archive with two members: `executable.json`, which says what the Executable is, and
`library.pb`, its functions as a serialised `FunctionDefLibrary`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.executable import Executable

CACHE_SUFFIX = ".poplar_exec"
LOCK_SUFFIX = ".compile_lock"
SERIALIZED_SUFFIX = ".ipu_bin"
_FORMAT = 1


def describe(executable: Executable) -> dict[str, Any]:
    """Returns what an Executable is, as data for JSON."""
    return {
        "format": _FORMAT,
        "name": executable.name,
        "fingerprint": executable.fingerprint,
        "replicas": executable.replicas,
        "ipus_used": executable.ipus_used,
        "entry": executable.entry,
        "arguments": [
            {
                "name": argument.name,
                "dtype": argument.dtype.name,
                "shape": list(argument.shape),
                "is_variable": argument.is_variable,
            }
            for argument in executable.arguments
        ],
        "results": [
            {"dtype": result.dtype.name, "shape": str(result.shape)}
            for result in executable.results
        ],
    }


def save(executable: Executable, path: Path) -> None:
    """Writes an Executable to a file, in one step, so that no reader sees half of it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("executable.json", json.dumps(describe(executable), indent=1))
        archive.writestr("library.pb", executable.library.SerializeToString(deterministic=True))
    partial.replace(path)


def load(path: Path) -> tuple[dict[str, Any], function_pb2.FunctionDefLibrary]:
    """Reads a file that `save` wrote.

    Returns:
        What the Executable is (as `describe`), and its functions.

    Raises:
        ValueError: If the file is not one of ours, or is of another format.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            description = json.loads(archive.read("executable.json"))
            library = function_pb2.FunctionDefLibrary.FromString(archive.read("library.pb"))
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{path} is not an executable of tensorflow_ipu: {error}") from error
    if description.get("format") != _FORMAT:
        raise ValueError(
            f"{path} has the format {description.get('format')}; this release reads {_FORMAT}. "
            "Delete it: it is made again when the program is compiled."
        )
    return description, library


def serialize(executable: Executable, folder: str) -> None:
    """Writes an Executable and its description into the serialisation folder."""
    directory = Path(folder)
    directory.mkdir(parents=True, exist_ok=True)
    save(executable, directory / f"{executable.fingerprint}{SERIALIZED_SUFFIX}")
    text = json.dumps(describe(executable), indent=1)
    (directory / f"{executable.fingerprint}.json").write_text(text, encoding="utf-8")


class DiskCache:
    """The directory of the flag `--executable_cache_path`. Never cleaned."""

    def __init__(self, folder: str) -> None:
        """Uses `folder`, which is made if it is missing."""
        self._directory = Path(folder)
        self._directory.mkdir(parents=True, exist_ok=True)

    def path(self, fingerprint: str) -> Path:
        """Returns the file of an Executable."""
        return self._directory / f"{fingerprint}{CACHE_SUFFIX}"

    @contextlib.contextmanager
    def locked(self, fingerprint: str) -> Iterator[bool]:
        """Holds the lock of one Executable, so that processes wait for one compilation.

        Yields:
            Whether the Executable is in the cache.
        """
        with open(self._directory / f"{fingerprint}{LOCK_SUFFIX}", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield self._is_valid(fingerprint)
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)

    def _is_valid(self, fingerprint: str) -> bool:
        path = self.path(fingerprint)
        return path.exists() and load(path)[0]["fingerprint"] == fingerprint
