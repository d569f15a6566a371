"""`Session`: runs an Ir on a device; the module `popxl.session`."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.compiler import requests
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.frontends.common import (
    abstract_arrays,
    device_table,
    executable_cache,
    profiles,
)
from tensorflow_ipu.frontends.common.errors import poplar_application_runtime_error
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.cpp_ops.ops import failure_of
from tensorflow_ipu.frontends.popxl.ir import Ir, reachable
from tensorflow_ipu.frontends.popxl.lowering import analysis, programs, weights
from tensorflow_ipu.frontends.popxl.lowering.transfers import Transfers
from tensorflow_ipu.frontends.popxl.ops.float8 import OUT_OF_RANGE
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.frontends.popxl.tensor import Constant, HostTensor, Variable
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.runtime import system
from tensorflow_ipu.runtime.attachment import ipus_reserved

__all__ = ["Session", "StreamBufferMaps", "d2hStreamBufferMaps", "h2dStreamBufferMaps"]


_TYPES = ("ipu_hw", "ipu_model", "cpu")
# The devices that sessions will need, attached or not.
_wanted: weakref.WeakSet[TypedDevice] = weakref.WeakSet()
#: Arrays by stream: from the device, to it, or either.
d2hStreamBufferMaps = Mapping[DeviceToHostStream, np.ndarray]
h2dStreamBufferMaps = Mapping[HostToDeviceStream, HostTensor]
StreamBufferMaps = Union[d2hStreamBufferMaps, h2dStreamBufferMaps]
_log = Logger("devicex")
# The name of a session in the folders of reports.
_NAME = "inference"


@runtime_checkable
class AcquiredDevice(Protocol):
    """A device that a program has acquired itself: a `popart.DeviceInfo`."""

    @property
    def numIpus(self) -> int:  # noqa: N802
        """How many IPUs it has."""

    @property
    def isAttached(self) -> bool:  # noqa: N802
        """Whether the program has its IPUs."""

    def attach(self) -> bool:
        """Takes the IPUs; returns whether the program has them."""

    def detach(self) -> None:
        """Gives the IPUs back."""


class TypedDevice:
    """A device of a type, with as many IPUs as a session needs."""

    def __init__(self, type: str, ipus: int, instances: Instances) -> None:  # noqa: A002
        """Takes the needs of a session. Several sessions may be attached at the same time.

        Args:
            type: "ipu_hw", "ipu_model" or "cpu".
            ipus: how many IPUs the session needs.
            instances: the processes that share the replicas of its program.

        Raises:
            ValueError: If it is "cpu" for more than one IPU.
            RuntimeError: If the machine has no such device.
        """
        if type == "cpu" and ipus > 1:
            raise ValueError(
                "The device 'cpu' does not have multiple devices, and the program needs "
                f"{ipus} IPUs. Use 'ipu_hw' or 'ipu_model'."
            )
        current = system.current()
        machine = current.machine
        unlimited = machine.is_model or current.plans_only
        if type == "ipu_hw" and ipus > machine.num_ipus and not unlimited:
            raise RuntimeError(
                f"Failed to acquire device: the program needs {ipus} IPUs. {machine.offer} Use "
                "'ipu_model' for more."
            )
        self.type = type
        self.ipus = ipus
        self._instances = instances
        _wanted.add(self)

    def __repr__(self) -> str:
        return f"{self.type} {self.ipus} IPUs"

    @property
    def is_attached(self) -> bool:
        """Whether the session has it."""
        return device_table.taken_by(self) is not None

    def attach(self) -> int:
        """Takes a device until `detach`, and returns its ordinal.

        A free device of the configuration in force that has as many IPUs serves. If there is none,
        the IPUs are configured anew with a device for each session, and the options in force.

        Raises:
            RuntimeError: If there is no such device, and sessions have others.
        """
        with device_table.LOCK:
            found = device_table.find(self.ipus, self._instances.count)
            if found is None:
                found = _configure(self.ipus, self._instances)
            device_table.take(self, found, is_fixed=True)
            return found

    def detach(self) -> None:
        """Gives the device back."""
        device_table.give_back(self)


class GivenDevice:
    """A device that the program has acquired itself, and gives back itself."""

    def __init__(self, device: AcquiredDevice, ipus: int) -> None:
        """Takes the device.

        Args:
            device: the device, attached or not.
            ipus: how many IPUs the session needs.

        Raises:
            RuntimeError: If it has another number of IPUs.
        """
        if ipus_reserved(device.numIpus) != ipus:
            raise RuntimeError(
                f"Failed to acquire device: the program needs {ipus} IPUs, and the given device "
                f"has {device.numIpus}. Acquire one with {ipus}."
            )
        self._device = device

    def __repr__(self) -> str:
        return repr(self._device)

    @property
    def is_attached(self) -> bool:
        """Whether the program has its IPUs."""
        return self._device.isAttached

    def attach(self) -> int:
        """Takes the IPUs until `detach`, and returns the ordinal of the device.

        Raises:
            RuntimeError: If the IPUs are not free, or it is a device to compile for only.
        """
        with device_table.LOCK:
            ordinal = device_table.taken_by(self._device) if self._device.attach() else None
            if ordinal is None:
                raise RuntimeError(f"Could not attach to device: {self._device!r}.")
            device_table.take(self._device, ordinal, is_fixed=True)
            return ordinal

    def detach(self) -> None:
        """Gives the IPUs back."""
        self._device.detach()


Device = Union[TypedDevice, GivenDevice]


def choose(description: Any, ipus: int, instances: Instances) -> Device:
    """Returns the device that a session is made for.

    Args:
        description: "ipu_hw", "ipu_model", "cpu" or a `popart.DeviceInfo`.
        ipus: how many IPUs the session needs.
        instances: the processes that share the replicas of its program.

    Raises:
        ValueError: If it is none of these, or "cpu" for more than one IPU.
        RuntimeError: If the device has another number of IPUs, or the machine has none such.
    """
    if description in _TYPES:
        return TypedDevice(description, ipus, instances)
    if isinstance(description, AcquiredDevice):
        return GivenDevice(description, ipus)
    raise ValueError(
        f"Incorrect device type provided: {description!r}. Expected one of: {', '.join(_TYPES)}; "
        "or a popart.DeviceInfo."
    )


def can_attach() -> bool:
    """Returns whether the IPUs may be configured anew: no session is attached."""
    return not device_table.is_fixed()


def check_replicas(ordinal: int, ipus: int, replicas: int) -> None:
    """Refuses a device that would not run a program on the replicas that its Ir has.

    Args:
        ordinal: of the device.
        ipus: IPUs of a replica.
        replicas: number of replicas of the Ir, in this process.

    Raises:
        RuntimeError: If the device would run another number.
    """
    found = system.current().replication_factor(ordinal, ipus)
    if found != replicas:
        raise RuntimeError(
            f"Failed to acquire device: the Ir has {replicas} replica(s) of {ipus} IPU(s), and the "
            f"device would run {found}. Set ir.replication_factor to a power of two; the IPU model "
            "of TF_POPLAR_FLAGS does not replicate."
        )


def ipus_needed(ipus: int, replicas: int) -> int:
    """Returns how many IPUs to attach for a program: a power of two.

    Args:
        ipus: IPUs of a replica.
        replicas: number of replicas.
    """
    return ipus_reserved(ipus * replicas)


def _configure(ipus: int, instances: Instances) -> int:
    """Configures devices for all sessions, or if there are not enough IPUs, the one device."""
    if device_table.is_fixed():
        raise RuntimeError(
            f"Could not attach to device: no device with {ipus} IPU(s) is free, and another "
            "session is attached, so the IPUs cannot be configured anew. Make all sessions before "
            "the first `with session:`, or leave that session."
        )
    if not device_table.is_free():
        return _add(ipus, instances)
    config = copy.deepcopy(system.current().settings)
    device_table.set_instances(config, instances)
    sizes = sorted(device.ipus for device in _wanted)
    for wanted in (sizes, [ipus]):
        config.select_ipus = []
        config.auto_select_ipus = wanted
        try:
            system.reconfigure(config)
        except tf.errors.OpError as error:
            failure = error
        else:
            return wanted.index(ipus)
    raise RuntimeError(f"Failed to acquire device: {failure.message}") from failure


def _add(ipus: int, instances: Instances) -> int:
    """Configures one more device and keeps the devices of other front ends."""
    found = device_table.add(ipus, instances=instances)
    if found is None:
        raise RuntimeError(
            f"Failed to acquire device: {ipus} IPU(s) are not free. Detach the devices of PopART."
        )
    return found


class Session:
    """Runs the main graph of an Ir.

    In `with session:` it is attached to a device, with the variables on it; at the end their values
    come to the host.
    """

    def __init__(
        self, ir: Ir, device_desc: Any = "cpu", weights_to_host_on_exit: bool = True
    ) -> None:
        """Checks an Ir and takes it over: it cannot change any more.

        Args:
            ir: the Ir.
            device_desc: "ipu_hw", "ipu_model" or "cpu": all are the simulated IPUs. Or a
                `popart.DeviceInfo`: if that is attached, so is the session now, and until
                `detach()` of the device.
            weights_to_host_on_exit: whether the values of variables come to the host at the end of
                `with session:`. They do not if a variable is a file that is open for reading only.

        Raises:
            ValueError: If the device is unknown, or is "cpu" for more than one IPU.
            RuntimeError: If there is nothing to run, replicas are missing, or there is no such
                device.
            popart.popart_exception: If the order of modifications is not fixed.
        """
        total = ir.instance_replication_factor * ir.instances.count
        if total != ir.replication_factor:
            raise RuntimeError(
                f"The Ir is for {ir.replication_factor} replicas, and {total} would run: "
                f"{ir.instance_replication_factor} in each of {ir.instances.count} processes. "
                "Start the others with poprun, or leave enableDistributedReplicatedGraphs off."
            )
        if not ir.main_graph.ops:
            raise RuntimeError("The Ir has no graphs with ops: there is nothing to run.")
        ipus = ipus_needed(analysis.ipus_used(ir), ir.instance_replication_factor)
        self._device = choose(device_desc, ipus, ir.instances)
        if ir.session_options.value("enableInplaceAmbiguityChecking"):
            for graph in reachable(ir.main_graph):
                analysis.check_order(graph)
        for graph in reachable(ir.main_graph)[1:]:
            analysis.warn_of_copies(graph)
        ir.close()
        self.ir_ = ir
        self._weights_to_host_on_exit = weights_to_host_on_exit
        self._depth = 0
        self._stays_attached = False
        self._programs: dict[int, programs.LoweredProgram] = {}
        self._program: programs.LoweredProgram | None = None
        self._transfers = Transfers(ir)
        self._all_variables = ir.main_graph.variables
        if not all(map(weights.is_writable, self._all_variables)):
            self._weights_to_host_on_exit = False
        ir.session_options.warn_of_ignored()
        if self._cache_folder is None:
            executable_cache.log_compiling()
        if self._device.is_attached:
            self._attach()
        elif self._cache_folder is not None and can_attach():
            self._prepare(self._device.attach())
            self._device.detach()

    def __repr__(self) -> str:
        return f"Session[{self._device!r} of {self.ir_!r}]"

    @property
    def ir(self) -> Ir:
        """The Ir that it runs."""
        return self.ir_

    @property
    def is_attached(self) -> bool:
        """Whether it has a device."""
        return self._program is not None and self._device.is_attached

    def __enter__(self) -> Session:
        """Attaches to a device and brings the variables to it, unless it is attached already."""
        if self._depth == 0:
            self._stays_attached = self.is_attached
            if not self._stays_attached:
                self._attach()
        self._depth += 1
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """At the end of the outermost `with`, fetches the variables and gives the device back.

        A device that was attached before stays so.
        """
        self._depth -= 1
        if self._depth:
            return
        try:
            if kind is None and self._weights_to_host_on_exit and self.is_attached:
                self.weights_to_host()
        finally:
            if not self._stays_attached:
                self._detach()

    def run(
        self,
        inputs: Mapping[HostToDeviceStream, HostTensor] | None = None,
        downcast_inputs: bool = True,
    ) -> dict[DeviceToHostStream, np.ndarray]:
        """Runs the main graph once.

        Args:
            inputs: for each stream that is loaded from, an array of the shape of the stream, with
                `num_host_transfers` and the number of replicas before it where these are not 1.
            downcast_inputs: whether data of 64 bits becomes data of 32 bits.

        Returns:
            The same for each stream that is stored to.

        Raises:
            ValueError: If it is not attached, streams are missing or unknown, or shapes do not fit.
            RuntimeError: If the program loads more elements than there are.
            popart.poplar_application_runtime_error: If a `log2_scale` tensor is out of range, or
                an operation of a library stops the program.
        """
        outputs = self.create_host_outputs()
        self.run_with_outputs(inputs, outputs, downcast_inputs)
        return outputs

    def run_with_outputs(
        self,
        inputs: Mapping[HostToDeviceStream, HostTensor] | None = None,
        outputs: Mapping[DeviceToHostStream, np.ndarray] | None = None,
        downcast_inputs: bool = True,
    ) -> None:
        """Runs the main graph once, and fills given arrays.

        Args:
            inputs: as for `run`.
            outputs: an array for each stream that is stored to, of the shape that `run` returns.
            downcast_inputs: as for `run`.

        Raises:
            ValueError: As `run` does.
            RuntimeError: As `run` does.
        """
        program = self._attached("run")
        elements = self._transfers.elements(inputs or {}, downcast_inputs)
        outputs = outputs or {}
        self._transfers.check_outputs(outputs)
        targets = self._transfers.targets(outputs)
        for variable in self._all_variables:
            variable.stale = True  # also by a run that fails
        try:
            with eager_context.eager_mode():
                stored = program.run(elements, targets)
        except tf.errors.OutOfRangeError as error:
            raise RuntimeError(
                "The program loads more elements of a stream than one run has: "
                f"num_host_transfers={self.ir_.num_host_transfers}. Set that before making the "
                "session to the number of loads of each stream."
            ) from error
        except tf.errors.InvalidArgumentError as error:
            if OUT_OF_RANGE not in str(error):
                raise
            raise poplar_application_runtime_error(
                f"{OUT_OF_RANGE}: {error.message}. The session option "
                "throwIfLog2ScaleTensorNotInRange leaves the check out."
            ) from error
        except tf.errors.InternalError as error:
            failure = failure_of(error)
            if failure is None:
                raise
            raise failure from error
        self._transfers.fill(outputs, targets, stored)

    def create_host_outputs(self) -> dict[DeviceToHostStream, np.ndarray]:
        """Returns an array of zeros for each stream that is stored to."""
        return self._transfers.new_outputs()

    def expected_inputs(self) -> set[HostToDeviceStream]:
        """Returns the streams that `run` needs data for."""
        return self.ir_.get_all_h2d_streams()

    def weights_from_host(self) -> None:
        """Brings the host's values of all variables to the device.

        Raises:
            ValueError: If it is not attached.
        """
        program = self._attached("weights_from_host")
        _log.debug(f"Writing weights from host, {len(self._all_variables)} tensors")
        with eager_context.eager_mode():
            program.write_variables()
        for variable in self._all_variables:
            variable.stale, variable.on_replicas = False, None

    def weights_to_host(self) -> None:
        """Brings the values of all variables to the host.

        Raises:
            ValueError: If it is not attached.
            Exception: If a variable is a file that cannot be written.
        """
        self._attached("weights_to_host")
        for variable in self._all_variables:
            weights.check_writable(variable)
        self._fetch()

    def _fetch(self) -> None:
        """Brings the values of variables to the host, but for files open for reading only."""
        program = self._attached("get_tensor_data")
        with eager_context.eager_mode():
            found = program.read_variables()
        for variable in filter(weights.is_writable, self._all_variables):
            weights.update(variable, found.get(variable))
        _log.debug("Writing weights to host complete.")

    def get_tensor_data(self, tensor: Constant | Variable) -> np.ndarray:
        """Returns the value of a variable or constant.

        Args:
            tensor: the variable or constant.

        Returns:
            The host's copy of the value, which may change later. While the session is attached
            the values on the device are fetched first, if they may have changed. A file that is
            open for reading only stays as it is.

        Raises:
            TypeError: If it is neither.
        """
        return self.get_tensors_data([tensor])[tensor]

    def get_tensors_data(
        self, tensors: Iterable[Constant | Variable]
    ) -> dict[Constant | Variable, np.ndarray]:
        """Returns the values of variables and constants; see `get_tensor_data`.

        Args:
            tensors: the variables and constants.

        Raises:
            TypeError: If one is neither.
        """
        tensors = list(tensors)
        for tensor in tensors:
            if not isinstance(tensor, (Constant, Variable)):
                raise TypeError(f"{tensor!r} is not of type Constant or Variable.")
        if self.is_attached and any(
            not tensor.in_sync_with_ipu and weights.is_writable(tensor) for tensor in tensors
        ):
            self._fetch()
        return {tensor: weights.host_value(tensor) for tensor in tensors}

    def write_variable_data(self, tensor: Variable, tensor_value: HostTensor) -> None:
        """Gives a variable a value: on the host, and on the device while attached.

        Args:
            tensor: the variable.
            tensor_value: an array of its shape and type, or a number.

        Raises:
            TypeError: If it is no variable, or the type differs.
            ValueError: If the shape differs.
        """
        self.write_variables_data({tensor: tensor_value})

    def write_variables_data(self, tensors: Mapping[Variable, HostTensor]) -> None:
        """Gives variables values; see `write_variable_data`.

        While attached, all variables get the host's values: fetch those that programs have changed
        before.

        Args:
            tensors: the variables with their values.

        Raises:
            TypeError: If one is no variable, or the type differs.
            ValueError: If the shape differs.
            NotImplementedError: If the values of all replicas come to the host.
        """
        values = {tensor: weights.value_for(tensor, value) for tensor, value in tensors.items()}
        for tensor, value in values.items():
            if not abstract_arrays.plans_only():
                tensor.data[...] = value
            tensor.on_replicas = None
        if self.is_attached:
            self.weights_from_host()

    def _full_input_shape(self, shape: Iterable[int]) -> tuple[int, ...]:
        """Returns the shape of the array of a stream in one run.

        Programs call it by this name of the original.

        Args:
            shape: the shape of the stream.
        """
        return self._transfers.full_shape(shape)

    def _attach(self) -> None:
        """Takes a device and brings the variables to it."""
        ordinal = self._device.attach()
        try:
            self._program = self._prepare(ordinal)
            for variable in self._all_variables:
                _log.trace(f"Reusing TensorData for d2hWeightBuffer of tensor {variable.id}")
            self.weights_from_host()
        except BaseException:
            self._detach()
            raise

    @property
    def _cache_folder(self) -> str | None:
        """The folder of the cache of compiled programs; None without a cache."""
        options = self.ir_.session_options
        return options.value("cachePath") if options.value("enableEngineCaching") else None

    def _prepare(self, ordinal: int) -> programs.LoweredProgram:
        """Returns the program for a device, which is made the first time.

        Args:
            ordinal: of the device, which the session has.
        """
        check_replicas(ordinal, analysis.ipus_used(self.ir_), self.ir_.instance_replication_factor)
        if ordinal not in self._programs:
            with eager_context.eager_mode():
                self._programs[ordinal] = self._made(ordinal)
        return self._programs[ordinal]

    def _made(self, ordinal: int) -> programs.LoweredProgram:
        """Makes the program for a device; it is compiled at the first run.

        The first one is compiled now if there is a cache, or a report is asked for.
        """
        program = programs.LoweredProgram(self.ir_, ordinal)
        if self._programs:
            return program
        options = self.ir_.session_options
        engine, is_kept = options.value("engineOptions"), False
        folder = self._cache_folder
        executable: Executable | None = None
        if folder is not None:
            changed = sorted(map(repr, options.changed_in_program().items()))
            text = repr((self._device, changed))
            executable, is_kept = programs.prepare_cached(program.cluster, ordinal, folder, text)
        elif any(name.startswith("autoReport.") for name in engine):
            executable, _ = requests.compile_ahead(program.cluster, ordinal)
        if executable is not None:
            self._profile(executable, engine, folder, is_kept)
        _log.info("Graph compiled")
        _log.info("Engine loaded")
        return program

    def _profile(
        self, executable: Executable, engine: Mapping[str, Any], folder: str | None, is_kept: bool
    ) -> None:
        """Writes the report that engine options request, or restores it from the cache."""
        profile = profiles.Profile.asked_for(_NAME, engine, executable.system)
        if profile is None or (is_kept and folder is not None and profile.restore(folder)):
            return
        profile.write(self, executable, Report.from_executable(executable))
        if folder is not None:
            profile.store(folder)

    def _detach(self) -> None:
        """Gives the device back."""
        self._program = None
        self._device.detach()

    def _attached(self, what: str) -> programs.LoweredProgram:
        """Returns the program of the device.

        Raises:
            ValueError: If the session has none.
        """
        if self._program is None or not self._device.is_attached:
            raise ValueError(
                f"Must be attached to device to call {what}. Call it in `with session:`."
            )
        return self._program
