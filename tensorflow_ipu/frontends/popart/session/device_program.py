"""`DeviceProgram` and `ExecutableFiles`: the program of a session, on its device and in files."""

from __future__ import annotations

import dataclasses
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
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.compiler import requests, store
from tensorflow_ipu.compiler.checks.capacity import advice, chosen_policy
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.frontends.common import executable_cache
from tensorflow_ipu.frontends.common.enums import DataType, DeviceType
from tensorflow_ipu.frontends.popart import debug_info, devices
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.debug_info import remove_lines
from tensorflow_ipu.frontends.popart.errors import (
    popart_exception,
    popart_runtime_error,
    poplar_exception,
)
from tensorflow_ipu.frontends.popart.lowering import programs
from tensorflow_ipu.frontends.popart.lowering.marks import ModelPlacement
from tensorflow_ipu.frontends.popart.lowering.placement import placed_nodes
from tensorflow_ipu.frontends.popart.lowering.training import GRADIENT
from tensorflow_ipu.frontends.popart.onnx_model import Model
from tensorflow_ipu.frontends.popart.session.setup import Setup
from tensorflow_ipu.frontends.popart.session.state import HostWeights, RandomState
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.tuning.advice import out_of_memory
from tensorflow_ipu.util import archives, private_files
from tensorflow_ipu.util.notices import warn_once

# --- The program on its device ---

# Ops that compute with numbers: the device has no code of them for INT8, which it only moves,
# compares (Max, Min), takes remainders of and casts.
_ARITHMETIC = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Abs", "Neg"),
        *("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Softmax", "MatMul", "Gemm", "Conv"),
        *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare"),
        *("MaxPool", "AveragePool", "CumSum", "Scale", "ScaledAdd", "Sign", "Floor", "Ceil"),
    }
)


class DeviceProgram:
    """The program of a session.

    Attributes:
        executable: The compiled program; None before that.
        loaded: The program on the device; None before that.
    """

    def __init__(self, setup: Setup, weights: HostWeights, random: RandomState) -> None:
        """Starts without a compiled program.

        Args:
            setup: model, options and schedule.
            weights: the values of variables at the start.
            random: the seed at the start.
        """
        self.executable: Executable | None = None
        self.loaded: programs.SessionProgram | None = None
        self._setup = setup
        self._weights = weights
        self._random = random
        # Compiled on an attached device and not loaded yet.
        self._compiled: programs.SessionProgram | None = None
        # The executable, and its plan for the chips of the device.
        self._planned: tuple[Executable, Plan] | None = None
        # Programs beside the main one that share its variables, by handle.
        self._further: dict[str, programs.SessionProgram] = {}

    def __repr__(self) -> str:
        state = "loaded" if self.loaded else "compiled" if self.executable else "not compiled"
        return f"DeviceProgram[{self._setup.name} {state}]"

    def compile(self) -> None:
        """Compiles the program for the device, attached or not.

        Raises:
            tf.errors.ResourceExhaustedError: If it does not fit into the memory of the device.
        """
        device, setup = self._setup.device, self._setup
        is_model = device.type in (DeviceType.IpuModel, DeviceType.Sim)
        if is_model:
            self._check_tensors()
        ordinal = device.ordinal if device.isAttached else None
        with (
            eager_context.eager_mode(),
            devices.borrowed(device.numIpus, ordinal) as borrowed,
        ):
            devices.check_replicas(borrowed, setup.schedule.ipus, setup.replicas)
            program = programs.SessionProgram(setup.step(), self._values(), borrowed)
            self.executable = requests.compile_ahead(program.cluster, borrowed)[0]
            self.executable.keep_sources()
        self.loaded = None
        self._compiled = program if ordinal is not None else None
        self._check_memory()
        # For models, the compiler knows the memory and has reported tensors that exceed it.
        if not is_model and device.type is not DeviceType.Cpu:
            self._check_tensors()

    def compiled(self) -> Executable:
        """Returns the compiled program.

        Raises:
            popart_runtime_error: If there is none.
        """
        if self.executable is None:
            raise popart_runtime_error(
                "There is no compiled engine. Did you forget to call prepareDevice?"
            )
        return self.executable

    def plan(self) -> Plan:
        """Returns memory and time of the program on the chips of the device."""
        executable, chip = self.compiled(), self._setup.device.chip
        if chip == executable.settings.chip:
            return executable.plan
        if self._planned is None or self._planned[0] is not executable:
            settings = dataclasses.replace(executable.settings, chip=chip)
            self._planned = executable, planning.plan(executable.workload, settings)
        return self._planned[1]

    def load(self) -> None:
        """Puts the compiled program on the device."""
        program = self._compiled
        if program is None or program.is_outdated:
            with eager_context.eager_mode():
                program = programs.SessionProgram(
                    self._setup.step(), self._values(), self._setup.device.ordinal
                )
        self._compiled, self.loaded = None, program
        self._further = {}

    def unload(self) -> None:
        """Takes the program off the device; it stays compiled."""
        self.loaded = None

    def on_device(self) -> programs.SessionProgram:
        """Returns the program on the device, rebuilt if the IPUs were configured anew.

        Raises:
            popart_runtime_error: If there is none.
        """
        if self.loaded is None:
            raise popart_runtime_error(
                "There is no compiled engine on the device. Did you forget to call prepareDevice?"
            )
        if self.loaded.is_outdated:
            # Another device was acquired, which configured the IPUs anew.
            with eager_context.eager_mode():
                values = self.loaded.values()
                self.loaded = programs.SessionProgram(
                    self._setup.step(), values, self._setup.device.ordinal
                )
        return self.loaded

    def forward_only(self, handle: str) -> programs.SessionProgram:
        """Returns the program of the forward passes; it shares the variables.

        Args:
            handle: the name to keep it by.

        Raises:
            popart_runtime_error: If the main program is not loaded.
        """
        main = self.on_device()
        if handle not in self._further:
            flow = self._setup.flow
            kinds = {n: flow.art(n) for n in flow.anchors() if not n.startswith(GRADIENT)}
            step = dataclasses.replace(
                self._setup.step(),
                data_flow=DataFlow(flow.batchesPerStep(), kinds),
                is_forward_only=True,
            )
            with eager_context.eager_mode():
                self._further[handle] = programs.SessionProgram(
                    step, {}, self._setup.device.ordinal, main.variables
                )
        return self._further[handle]

    def _values(self) -> dict[str, np.ndarray]:
        """Returns the values of all variables of the program at its start."""
        setup = self._setup
        return {**self._weights.values, **setup.scalars(), **self._random.variables()}

    def _check_tensors(self) -> None:
        """Refuses tensors larger than an IPU, unless the capacity policy only warns.

        Raises:
            tf.errors.ResourceExhaustedError: If there is one.
        """
        if devices.refuses_what_does_not_fit():
            setup = self._setup
            _check_sizes(setup.facts.infos, setup.schedule, setup.device.chip)

    def _check_memory(self) -> None:
        """Refuses a program that does not fit a device with fewer tiles than the compiler knows.

        Raises:
            tf.errors.ResourceExhaustedError: If it does not fit.
        """
        executable, device = self.compiled(), self._setup.device
        if device.type not in (DeviceType.Ipu, DeviceType.OfflineIpu):
            return
        if device.chip == executable.settings.chip or not executable.on_device:
            return
        verdict = out_of_memory.check(self.plan(), chosen_policy(executable.system))
        if verdict.action == out_of_memory.RAISE:
            text = f"{verdict.message}\n\n{advice('')}"
            raise tf.errors.ResourceExhaustedError(None, None, text)
        if verdict.action == out_of_memory.WARN:
            warn_once("%s\n\n%s", verdict.message, advice(""), key=verdict.message)


def check_types(model: Model, infos: Mapping[str, TensorInfo]) -> None:
    """Refuses arithmetic with INT8.

    Args:
        model: the model.
        infos: shape and type of each tensor.

    Raises:
        poplar_exception: If there is some.
    """
    for node in placed_nodes(model):
        if node.op_type not in _ARITHMETIC:
            continue
        for name in node.input:
            if name in infos and infos[name].dataType() is DataType.INT8:
                error = poplar_exception(
                    f"{node.op_type} does not compute with INT8, which its input {name} has. Cast "
                    "it first."
                )
                debug_info.add_note(error, node)
                raise error


def _check_sizes(infos: Mapping[str, TensorInfo], schedule: ModelPlacement, chip: Chip) -> None:
    """Refuses tensors that are larger than the memory of an IPU.

    Raises:
        tf.errors.ResourceExhaustedError: If there is one.
    """
    for name, info in infos.items():
        location = schedule.locations.get(name)
        is_elsewhere = location is not None and (location.is_remote or location.split > 1)
        if info.nbytes() > chip.memory and not is_elsewhere:
            raise tf.errors.ResourceExhaustedError(
                None,
                None,
                f"Out of memory: the tensor {name}, {info.data_type()} {info.shape()}, takes "
                f"{info.nbytes():,} bytes, and an IPU of {chip.tiles} tiles has {chip.memory:,} "
                "bytes. Take a device with more tiles, a smaller tensor, or keep weights off the "
                "chip with weightTensorLocationSettings.",
            )


# --- Files and cache ---

# A file is a zip archive: the members that `compiler.store` writes for a compiled program,
# `popart.json` with the digest of its session, and the values of weights as arrays of NumPy.

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

    def __init__(self, setup: Setup, weights: HostWeights, program: DeviceProgram) -> None:
        """Takes the program.

        Args:
            setup: model, options and device.
            weights: the values to save and load.
            program: the program to save.
        """
        self.has_loaded = False
        self.folder: Path | None = None
        self._setup = setup
        self._weights = weights
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
        weights = self._weights.values if has_weights else {}
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
                for name, content in _as_members(self._weights.values).items():
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
        host = self._weights.values
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
