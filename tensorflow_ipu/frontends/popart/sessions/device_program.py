"""`DeviceProgram`: the program of a session, compiled for its device and loaded onto it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.compiler import requests
from tensorflow_ipu.compiler.checks.capacity import advice, chosen_policy
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.frontends.common.enums import DataType, DeviceType
from tensorflow_ipu.frontends.popart import debug_info, devices
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error, poplar_exception
from tensorflow_ipu.frontends.popart.lowering import programs
from tensorflow_ipu.frontends.popart.lowering.places import placed_nodes
from tensorflow_ipu.frontends.popart.lowering.schedules import ModelPlacement
from tensorflow_ipu.frontends.popart.lowering.training import GRADIENT
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.sessions.random_state import RandomState
from tensorflow_ipu.frontends.popart.sessions.setup import Setup
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.tuning.advice import out_of_memory
from tensorflow_ipu.util.notices import warn_once

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

    def __init__(self, setup: Setup, random: RandomState) -> None:
        """Starts without a compiled program.

        Args:
            setup: model, options and schedule.
            random: the seed at the start.
        """
        self.executable: Executable | None = None
        self.loaded: programs.SessionProgram | None = None
        self._setup = setup
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
        """Compiles the program for the device, which need not be attached.

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
        """Returns the program of the forward passes, which shares the variables.

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
        return {**setup.weights.values, **setup.scalars(), **self._random.variables()}

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
