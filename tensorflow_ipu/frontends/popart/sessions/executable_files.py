"""`ExecutableFiles`: files of compiled programs, and the cache of them.

A file is a zip archive: the members that `compiler.store` writes for a compiled program,
`popart.json` with the digest of its session, and the values of weights as arrays of NumPy.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tensorflow_ipu.compiler import store
from tensorflow_ipu.frontends.common import executable_cache
from tensorflow_ipu.frontends.common.enums import DeviceType
from tensorflow_ipu.frontends.popart.debug_info import remove_lines
from tensorflow_ipu.frontends.popart.errors import (
    popart_exception,
    popart_runtime_error,
)
from tensorflow_ipu.frontends.popart.sessions.device_program import DeviceProgram
from tensorflow_ipu.frontends.popart.sessions.setup import Setup
from tensorflow_ipu.util import archives, private_files
from tensorflow_ipu.util.notices import warn_once

_DEFAULT_NAME = "executable.popef"
_MEMBER, _WEIGHTS = "popart.json", "weights/"
_COMPILED_FOR = (DeviceType.Ipu, DeviceType.OfflineIpu)
# Options that do not change the program.
_NOT_IN_PROGRAM = ("cachePath", "enableEngineCaching", "enableVariablesCaching", "logDir")


class ExecutableFiles:
    """Files of the compiled program of a session, and its entry in the cache.

    Attributes:
        has_loaded: Whether the program came from a file.
        folder: The folder of that file; None if there is none.
    """

    def __init__(self, setup: Setup, program: DeviceProgram) -> None:
        """Takes the program.

        Args:
            setup: model, options and device.
            program: the program to save.
        """
        self.has_loaded = False
        self.folder: Path | None = None
        self._setup = setup
        self._program = program

    def __repr__(self) -> str:
        return f"ExecutableFiles[{self._setup.name} {self.folder}]"

    def save(self, path: str, has_metadata: bool = True, has_weights: bool = True) -> None:
        """Writes the compiled program to a file.

        Args:
            path: the file, or its folder; missing folders are made.
            has_metadata: whether to write the digest of the session, without which no session
                loads the file.
            has_weights: whether to write the host's values of weights.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            popart_runtime_error: If nothing was compiled.
            OSError: If it cannot be written.
        """
        self._check_device()
        if self._program.executable is None:
            raise popart_runtime_error(
                "There is no compiled engine to save. Did you forget to call prepareDevice?"
            )
        members: dict[str, Any] = {_MEMBER: self._metadata()} if has_metadata else {}
        weights = self._setup.weights.values if has_weights else {}
        target = _target(path)
        store.save(self._program.executable, target, {**members, **_as_members(weights)})

    def save_variables(self, path: str) -> None:
        """Writes the host's values of weights to a file.

        Args:
            path: the file, or its folder; missing folders are made.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            OSError: If it cannot be written.
        """
        self._check_device()
        with private_files.replacing(_target(path)) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_MEMBER, self._metadata())
                for name, content in _as_members(self._setup.weights.values).items():
                    archive.writestr(name, content)

    def load(self, filename: str) -> None:
        """Takes the compiled program and the weights of a file.

        Args:
            filename: the file, which a session of the same program has saved.

        Raises:
            popart_exception: If it cannot be read, or has another program.
        """
        if not os.path.isfile(filename):
            raise popart_exception(f"Could not open file: {filename}")
        try:
            self._read(Path(filename))
        except (OSError, ValueError) as error:
            raise popart_exception(f"Could not load the executable {filename}: {error}") from error
        self.folder = Path(filename).parent
        executable_cache.log_loading(filename)

    def export_target(self, filename: str) -> Path:
        """Returns the file to export to.

        Args:
            filename: the file, or its folder; missing folders are made.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            OSError: If it cannot be written.
        """
        self._check_device()
        target = _target(filename)
        if not os.access(target.parent, os.W_OK):
            raise OSError(f"Unable to write to {target.parent}.")
        return target

    def look_up(self) -> Path | None:
        """Looks for the program in the cache, before it is compiled.

        Returns:
            The file of the program in the cache, which may be missing; None without a cache.
        """
        entry = self._cache_entry()
        if not self.has_loaded:
            if entry is None or not entry.is_there(lambda path: self._read(path, False)):
                executable_cache.log_compiling()
            else:
                self.folder = entry.path.parent
        return None if entry is None else entry.path

    def keep(self, cached: Path | None) -> None:
        """Writes the compiled program to the cache, unless it came from a file.

        Args:
            cached: the file in the cache; None without a cache.
        """
        if cached is not None and not self.has_loaded:
            self.save(os.fspath(cached), True, self._setup.options.enableVariablesCaching)

    def _cache_entry(self) -> executable_cache.Entry | None:
        """Returns the entry of the program in the cache; None if there is no cache."""
        options = self._setup.options
        if not options.enableEngineCaching or self._setup.device.type not in _COMPILED_FOR:
            return None
        return executable_cache.Entry(options.cachePath, self._digest())

    def _read(self, path: Path, takes_weights: bool = True) -> None:
        """Reads a file of a program.

        Raises:
            OSError: If it cannot be read.
            ValueError: If it is no such file, or has another program.
        """
        host = self._setup.weights.values
        with archives.reading(path, "an executable of a session of PopART") as archive:
            if _MEMBER not in archive.namelist():
                raise ValueError("it was saved without savePopartMetadata")
            digest = archives.read_json(archive, _MEMBER).get("program")
            if digest != self._digest():
                raise ValueError(
                    "it is that of another program: model, options, optimizer, anchors or device "
                    "differ"
                )
            values = host if takes_weights else {}
            weights = {name: _read_array(archive, name, value) for name, value in values.items()}
        for name, value in weights.items():
            if value is not None:
                host[name][...] = value
        self.has_loaded = True

    def _check_device(self) -> None:
        device = self._setup.device.type
        if device not in _COMPILED_FOR:
            raise popart_exception(
                f"Executables for device type {device} cannot be saved. Use "
                "acquireAvailableDevice or createOfflineIPUDevice."
            )

    def _metadata(self) -> str:
        return json.dumps({"program": self._digest(), "session": self._setup.name})

    def _digest(self) -> str:
        """Returns a hash of everything that the program depends on."""
        setup = self._setup
        proto = onnx.ModelProto()
        proto.CopyFrom(setup.model.proto)
        for tensor in proto.graph.initializer:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "uint64_data"):
                tensor.ClearField(field)
            del tensor.external_data[:]
        proto.graph.name = ""
        remove_lines(proto.graph)
        del proto.metadata_props[:]
        changed = setup.options.changed()
        anchors = [(name, repr(setup.flow.art(name))) for name in setup.flow.anchors()]
        training, device = setup.training, setup.device
        parts = [
            {name: repr(changed[name]) for name in sorted(changed) if name not in _NOT_IN_PROGRAM},
            (anchors, setup.flow.batchesPerStep()),
            (device.numIpus, device.tilesPerIPU, device.ipuVersion),
            training and (training.loss, training.optimizer.described()),
        ]
        text = repr(parts).encode()
        return hashlib.sha256(proto.SerializeToString(deterministic=True) + text).hexdigest()


def _target(path: str) -> Path:
    """Returns the file to write, in a folder that is there."""
    target = Path(path)
    if target.is_dir():
        return target / _DEFAULT_NAME
    if not target.parent.is_dir():
        warn_once("The folder %s is made, to save an executable in it.", target.parent)
        try:
            private_files.make_folder(target.parent)
        except OSError as error:
            raise OSError(f"Unable to write to {target.parent}: {error}") from error
    return target


def _as_members(weights: Mapping[str, np.ndarray]) -> dict[str, Any]:
    members = {}
    for name, value in weights.items():
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=False)
        members[f"{_WEIGHTS}{name}"] = buffer.getvalue()
    return members


def _read_array(archive: zipfile.ZipFile, name: str, like: np.ndarray) -> np.ndarray | None:
    """Returns the value of a weight in an archive; None if it has none."""
    member = f"{_WEIGHTS}{name}"
    if member not in archive.namelist():
        return None
    value = np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
    if value.shape != like.shape or value.dtype != like.dtype:
        raise ValueError(f"the value of {name} has another shape or type")
    return np.asarray(value)
