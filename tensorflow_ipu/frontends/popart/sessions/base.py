"""`SessionBase`: what a session holds, and what all its groups of methods ask of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.compiler import requests
from tensorflow_ipu.compiler.checks.capacity import advice, chosen_policy
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.frontends.common.replica_groups import ReplicaGrouping
from tensorflow_ipu.frontends.popart import attachment
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.device_info import DeviceInfo
from tensorflow_ipu.frontends.popart.enums import (
    DeviceConnectionType,
    DeviceType,
    SyntheticDataMode,
)
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.lowering import programs, survey
from tensorflow_ipu.frontends.popart.lowering.schedules import Schedule
from tensorflow_ipu.frontends.popart.lowering.steps import Step
from tensorflow_ipu.frontends.popart.lowering.training import GRADIENT, Training
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.ops.kinds import Numerics
from tensorflow_ipu.frontends.popart.options.patterns import Patterns
from tensorflow_ipu.frontends.popart.options.planned import program_options
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.sessions import device_limits
from tensorflow_ipu.frontends.popart.sessions.weights import HostWeights
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.tuning.advice import capacity
from tensorflow_ipu.util.notices import warn_once


class SessionBase:
    """What a session holds: a model, its program on the device, and the host's weights."""

    _name: str
    _options: SessionOptions
    _patterns: Patterns
    _device: DeviceInfo
    _flow: DataFlow
    _accumulation: int
    _replicas: int
    #: Replicas in all processes.
    _total_replicas: int
    _model: Model
    _survey: survey.Survey
    _host: HostWeights
    _training: Training | None = None
    _schedule: Schedule
    #: The groups of replicas of variables of which they have values of their own.
    _groupings: Mapping[str, ReplicaGrouping] = {}
    #: What was compiled; None before that.
    _executable: Executable | None = None
    #: A program and its plan for the chips of the device.
    _planned: tuple[Executable, Plan] | None = None
    #: What is loaded; None before that.
    _program: programs.Program | None = None
    #: Programs beside it that share its variables, by handle.
    _further: dict[str, programs.Program]
    #: What was compiled on an attached device and is not loaded yet.
    _compiled_program: programs.Program | None = None
    #: Whether the program came from a file, and was not compiled for this session.
    _is_from_file = False
    _must_upload = True
    _is_in_sync = True
    _runs = 0

    def _step(self) -> Step:
        """Returns what one run of the program does."""
        options = self._options
        return Step(
            self._model,
            self._flow,
            {name: self._info(name) for name in self._ids()},
            self._accumulation,
            self._total_replicas,
            self._schedule,
            self._training,
            self._numerics(),
            options.enableStochasticRounding,
            self._groupings,
            self._survey.tracked,
            program_options(options, self._device.type, self._schedule.recomputes),
            options.syntheticDataMode,
            local_replicas=self._replicas,
        )

    def _numerics(self) -> Numerics:
        """Returns what changes the results of ops."""
        return Numerics(
            self._options.enableNonStableSoftmax,
            self._options.groupNormStridedChannelGrouping,
            self._patterns.isPatternEnabled("NlllWithSoftmaxGradDirect"),
            self._patterns.isPatternEnabled("Slice2SliceSubsample"),
        )

    @property
    def _is_synthetic(self) -> bool:
        """Whether nothing moves between the host and the device."""
        return self._options.syntheticDataMode is not SyntheticDataMode.Off

    def _compile(self) -> None:
        """Compiles the program for the device, which need not be attached."""
        is_model = self._device.type in (DeviceType.IpuModel, DeviceType.Sim)
        if is_model:
            self._check_tensors()
        ordinal = self._device.ordinal if self._device.isAttached else None
        with (
            eager_context.eager_mode(),
            attachment.borrowed(self._device.numIpus, ordinal) as borrowed,
        ):
            attachment.check_replicas(borrowed, self._schedule.ipus, self._replicas)
            program = programs.Program(self._step(), self._values(), borrowed)
            self._executable = requests.compile_ahead(program.cluster, borrowed)[0]
            self._executable.keep_sources()
        self._program = None
        self._compiled_program = program if ordinal is not None else None
        self._check_memory()
        # Of these devices the compiler knows the memory, and has said what takes it.
        if not is_model and self._device.type is not DeviceType.Cpu:
            self._check_tensors()

    def _check_tensors(self) -> None:
        """Refuses tensors that alone are larger than an IPU, unless that is to be a warning only.

        Raises:
            tf.errors.ResourceExhaustedError: If there is one.
        """
        if attachment.refuses_what_does_not_fit():
            device_limits.check_sizes(self._survey.infos, self._schedule, self._device.chip)

    def _plan(self) -> Plan:
        """Returns memory and time of the program on the chips of the device."""
        executable = self._compiled()
        if self._device.chip == executable.settings.chip:
            return executable.plan
        if self._planned is None or self._planned[0] is not executable:
            settings = dataclasses.replace(executable.settings, chip=self._device.chip)
            self._planned = executable, planning.plan(executable.workload, settings)
        return self._planned[1]

    def _check_memory(self) -> None:
        """Refuses a program that does not fit a device with fewer tiles than the compiler knows.

        Raises:
            tf.errors.ResourceExhaustedError: If it does not fit.
        """
        executable = self._compiled()
        if self._device.type not in (DeviceType.Ipu, DeviceType.OfflineIpu):
            return
        if self._device.chip == executable.settings.chip or not executable.on_device:
            return
        verdict = capacity.check(self._plan(), chosen_policy(executable.system))
        if verdict.action == capacity.RAISE:
            text = f"{verdict.message}\n\n{advice('')}"
            raise tf.errors.ResourceExhaustedError(None, None, text)
        if verdict.action == capacity.WARN:
            warn_once("%s\n\n%s", verdict.message, advice(""), key=verdict.message)

    def _compiled(self) -> Executable:
        """Returns the compiled program.

        Raises:
            popart_runtime_error: If there is none.
        """
        if self._executable is None:
            raise popart_runtime_error(
                "There is no compiled engine. Did you forget to call prepareDevice?"
            )
        return self._executable

    def _load(self) -> None:
        """Puts the compiled program on the device."""
        program = self._compiled_program
        if program is None or program.is_outdated:
            with eager_context.eager_mode():
                program = programs.Program(self._step(), self._values(), self._device.ordinal)
        self._compiled_program, self._program = None, program
        self._further = {}

    def _unload(self) -> None:
        """Takes the program off the device; it stays compiled."""
        self._program = None

    def _values(self) -> dict[str, np.ndarray]:
        """Returns the values of all variables of the program at its start."""
        return {**self._host.values, **self._scalars(), **self._seed_words()}

    def _scalars(self) -> Mapping[str, np.ndarray]:
        """Returns numbers of the program that can change."""
        return {}

    def _made_each_time(self) -> Mapping[str, TensorInfo]:
        """Returns shape and type of tensors that the training makes in each micro-batch."""
        return {}

    def _seed_words(self) -> Mapping[str, np.ndarray]:
        """Returns the variable of the program for the seed, if there is one."""
        return {}

    def _ids(self) -> set[str]:
        """Returns the ids of all tensors, and of the gradients of weights that are trained."""
        gradients = (GRADIENT + name for name in self._survey.trained)
        made = self._made_each_time()
        return {*self._survey.infos, *self._host.values, *self._scalars(), *gradients, *made}

    def _info(self, name: str) -> TensorInfo:
        """Returns shape and type of a tensor."""
        if name in self._survey.infos:
            return self._survey.infos[name]
        if name in self._made_each_time():
            return self._made_each_time()[name]
        if name.startswith(GRADIENT):
            return self._survey.infos[name[len(GRADIENT) :]]
        if name in self._host.values:
            value = self._host.values[name]
            return TensorInfo(np.asarray(value[0]) if name in self._groupings else value)
        return TensorInfo(self._scalars()[name])

    def _loaded(self) -> programs.Program:
        """Returns the program on the device.

        Raises:
            popart_runtime_error: If there is none.
        """
        if self._program is None:
            raise popart_runtime_error(
                "There is no compiled engine on the device. Did you forget to call prepareDevice?"
            )
        if self._program.is_outdated:
            # Another device was acquired, which configured the IPUs anew.
            with eager_context.eager_mode():
                values = self._program.values()
                self._program = programs.Program(self._step(), values, self._device.ordinal)
        return self._program

    def _is_offline(self) -> bool:
        return self._device.connectionType is DeviceConnectionType.Never
