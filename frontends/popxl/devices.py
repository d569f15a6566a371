"""Gives sessions TensorFlow devices with the IPUs that they need."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import tensorflow as tf

from tensorflow_ipu.device import system
from tensorflow_ipu.device.attachment import ipus_reserved
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.frontends import device_table

# How many IPUs each session needs, attached or not.
_needed: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def expect(owner: Any, ipus: int) -> None:
    """Notes that a session will need a device: sessions may be attached at the same time.

    Args:
        owner: the session.
        ipus: how many IPUs it needs.
    """
    _needed[owner] = ipus


def attach(owner: Any, instances: Instances) -> int:
    """Returns the ordinal of a device for a session, which has it until `detach`.

    A free device of the configuration in force that has so many IPUs serves. If there is none, the
    IPUs are configured anew with a device for each session, and the options in force.

    Args:
        owner: the session, which is expected.
        instances: the processes that share the replicas of its program.

    Raises:
        RuntimeError: If there is no such device, and sessions have others.
    """
    with device_table.LOCK:
        ipus = _needed[owner]
        found = device_table.find(ipus, instances.count)
        if found is None:
            found = _configure(ipus, instances)
        device_table.take(owner, found, is_fixed=True)
        return found


def detach(owner: Any) -> None:
    """Gives the device of a session back.

    Args:
        owner: the session.
    """
    device_table.give_back(owner)


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
    sizes = sorted(_needed.values())
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
    """Configures one device more: those of other front ends keep their places."""
    found = device_table.add(ipus, instances=instances)
    if found is None:
        raise RuntimeError(
            f"Failed to acquire device: {ipus} IPU(s) are not free. Detach the devices of PopART."
        )
    return found
