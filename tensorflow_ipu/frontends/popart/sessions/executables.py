"""`ExecutableMethods`: compiled programs in files, and the cache of them.

A file is a zip archive: what `compiler.store` writes of a compiled program, `popart.json`, which
says what session it is for, and the values of weights as arrays of NumPy.
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
from tensorflow_ipu.frontends.common import executable_cache, logs, profiles
from tensorflow_ipu.frontends.popart.debugging.context import remove_lines
from tensorflow_ipu.frontends.popart.enums import DeviceType
from tensorflow_ipu.frontends.popart.errors import (
    OutOfMemoryError,
    popart_exception,
    popart_runtime_error,
)
from tensorflow_ipu.frontends.popart.sessions import debug_ops, planning_lines, schedule_files
from tensorflow_ipu.frontends.popart.sessions.base import SessionBase
from tensorflow_ipu.frontends.pva import Report
from tensorflow_ipu.profiler.report_data import Executions, options_of
from tensorflow_ipu.util import archives, private_files
from tensorflow_ipu.util.notices import warn_once

_DEFAULT_NAME = "executable.popef"
_MEMBER, _WEIGHTS = "popart.json", "weights/"
_COMPILED_FOR = (DeviceType.Ipu, DeviceType.OfflineIpu)
# Options that do not change the program.
_NOT_IN_PROGRAM = ("cachePath", "enableEngineCaching", "enableVariablesCaching", "logDir")


class ExecutableMethods(SessionBase):
    """The methods of a session about compiled programs in files."""

    #: The folder of the file that the program is from, if it is from one.
    _loaded_from: Path | None = None

    def saveExecutable(
        self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True
    ) -> None:
        """Writes the compiled program to a file.

        Args:
            path: the file, or a folder to put it into; folders that are missing are made.
            savePopartMetadata: whether to write what session it is for; a file without that cannot
                be loaded by a session.
            saveVariables: whether to write the host's values of weights.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            popart_runtime_error: If nothing was compiled.
            OSError: If it cannot be written.
        """
        self._check_device()
        if self._executable is None:
            raise popart_runtime_error(
                "There is no compiled engine to save. Did you forget to call prepareDevice?"
            )
        members: dict[str, Any] = {_MEMBER: self._metadata()} if savePopartMetadata else {}
        weights = self._host.values if saveVariables else {}
        store.save(self._executable, _target(path), {**members, **_as_members(weights)})

    def saveVariables(self, path: str) -> None:
        """Writes the host's values of weights to a file.

        Args:
            path: the file, or a folder to put it into; folders that are missing are made.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            OSError: If it cannot be written.
        """
        self._check_device()
        with private_files.replacing(_target(path)) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_MEMBER, self._metadata())
                for name, content in _as_members(self._host.values).items():
                    archive.writestr(name, content)

    def loadExecutable(self, filename: str) -> None:
        """Takes the compiled program from a file that a session of the same program has saved.

        Args:
            filename: the file; values of weights that it has become those of the host.

        Raises:
            popart_exception: If it cannot be read, or is that of another program.
        """
        if not os.path.isfile(filename):
            raise popart_exception(f"Could not open file: {filename}")
        try:
            self._read(Path(filename))
        except (OSError, ValueError) as error:
            raise popart_exception(f"Could not load the executable {filename}: {error}") from error
        self._loaded_from = Path(filename).parent
        executable_cache.log_loading(filename)

    def compileAndExport(self, filename: str, err: OutOfMemoryError | None) -> None:
        """Compiles the program for its device without loading it, and writes it to a file.

        Args:
            filename: the file, or a folder to put it into; folders that are missing are made.
            err: where an error about memory goes; if it is None, it is raised.

        Raises:
            popart_exception: If programs for this type of device cannot be saved.
            OSError: If it cannot be written.
        """
        self._check_device()
        target = _target(filename)
        if not os.access(target.parent, os.W_OK):
            raise OSError(f"Unable to write to {target.parent}.")
        self._prepare(False, err)
        if self._executable is not None:
            self.saveExecutable(os.fspath(target))
            self._profile(target.parent)

    def _prepare(self, loads: bool, err: OutOfMemoryError | None) -> None:
        """Compiles the program, and loads it if that is asked for."""
        raise NotImplementedError

    def _compile_or_load(self) -> None:
        """Compiles the program, and keeps it in the cache if there is one."""
        entry = self._cache_entry()
        if not self._is_from_file:
            if entry is None or not entry.is_there(lambda path: self._read(path, False)):
                executable_cache.log_compiling()
            else:
                self._loaded_from = entry.path.parent
        self._compile()
        self._profile(None if entry is None else entry.path.parent)
        debug_ops.record_program(self._compiled())
        if self._options.serializedPoprithmsShiftGraphsDir:
            folder = self._options.serializedPoprithmsShiftGraphsDir
            schedule_files.write(self._model.nodes, folder, self._name)
        logs.Logger("devicex").info("Graph compiled")
        trains, memory = self._training is not None, self._device.chip.memory_per_tile
        planning_lines.log(self._model.nodes, self._options, memory, trains)
        if entry is not None and not self._is_from_file:
            self.saveExecutable(os.fspath(entry.path), True, self._options.enableVariablesCaching)

    def _profile(self, kept: Path | None) -> None:
        """Writes the report that engine options ask for, or takes that of a loaded program.

        Args:
            kept: the folder where the compiled program is kept; None if it is not.
        """
        executable = self._compiled()
        engine = self._options.engineOptions
        profile = profiles.Profile.asked_for(self._name, engine, executable.system)
        if profile is None:
            return
        if self._loaded_from is not None and profile.restore(self._loaded_from):
            return
        plan = self._plan()
        report = Report.from_plan(plan, options_of(executable), Executions())
        profile.write(self, executable, report)
        if kept is not None:
            profile.store(kept)

    def _cache_entry(self) -> executable_cache.Entry | None:
        """Returns the place of the program in the cache; None if there is no cache."""
        if not self._options.enableEngineCaching or self._device.type not in _COMPILED_FOR:
            return None
        return executable_cache.Entry(self._options.cachePath, self._digest())

    def _read(self, path: Path, takes_weights: bool = True) -> None:
        """Reads a file of a program.

        Raises:
            OSError: If it cannot be read.
            ValueError: If it is something else, or that of another program.
        """
        with archives.reading(path, "an executable of a session of PopART") as archive:
            if _MEMBER not in archive.namelist():
                raise ValueError("it was saved without savePopartMetadata")
            digest = archives.read_json(archive, _MEMBER).get("program")
            if digest != self._digest():
                raise ValueError(
                    "it is that of another program: model, options, optimizer, anchors or device "
                    "differ"
                )
            values = self._host.values if takes_weights else {}
            weights = {name: _read_array(archive, name, value) for name, value in values.items()}
        for name, value in weights.items():
            if value is not None:
                self._host.values[name][...] = value
        self._is_from_file = True

    def _check_device(self) -> None:
        if self._device.type not in _COMPILED_FOR:
            raise popart_exception(
                f"Executables for device type {self._device.type} cannot be saved. Use "
                "acquireAvailableDevice or createOfflineIPUDevice."
            )

    def _metadata(self) -> str:
        return json.dumps({"program": self._digest(), "session": self._name})

    def _digest(self) -> str:
        """Returns a hash of all that the program depends on."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self._model.proto)
        for tensor in proto.graph.initializer:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "uint64_data"):
                tensor.ClearField(field)
            del tensor.external_data[:]
        proto.graph.name = ""
        remove_lines(proto.graph)
        del proto.metadata_props[:]
        changed = self._options.changed()
        anchors = [(name, repr(self._flow.art(name))) for name in self._flow.anchors()]
        parts = [
            {name: repr(changed[name]) for name in sorted(changed) if name not in _NOT_IN_PROGRAM},
            (anchors, self._flow.batchesPerStep()),
            (self._device.numIpus, self._device.tilesPerIPU, self._device.ipuVersion),
            self._training and (self._training.loss, self._training.optimizer.described()),
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
