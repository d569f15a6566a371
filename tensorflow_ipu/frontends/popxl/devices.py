"""Devices that sessions attach to: of the configuration, which is made anew if needed, or given."""

from __future__ import annotations

import copy
import weakref
from typing import Any, Protocol, Union, runtime_checkable

import tensorflow as tf

from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.frontends.common import device_table
from tensorflow_ipu.runtime import system
from tensorflow_ipu.runtime.attachment import ipus_reserved

_TYPES = ("ipu_hw", "ipu_model", "cpu")


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
        machine = system.current().machine
        if type == "ipu_hw" and ipus > machine.num_ipus and not machine.is_model:
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

# The devices that sessions will need, attached or not.
_wanted: weakref.WeakSet[TypedDevice] = weakref.WeakSet()


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
