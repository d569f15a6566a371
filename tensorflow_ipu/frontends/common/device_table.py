"""Which program of which front end has which TensorFlow device: one table for all of them."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.machine import MachineConfiguration
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.runtime import system

#: Held while devices are chosen and taken.
LOCK = threading.RLock()


class _Taken(NamedTuple):
    """A device that somebody has.

    Args:
        ordinal: of the TensorFlow device.
        is_fixed: whether the IPUs must not be configured anew while it is taken.
    """

    ordinal: int
    is_fixed: bool


_taken: weakref.WeakKeyDictionary[Any, _Taken] = weakref.WeakKeyDictionary()


def take(owner: Any, ordinal: int, is_fixed: bool) -> None:
    """Reserves a device for an owner, until `give_back` or the owner's end.

    Args:
        owner: who has it.
        ordinal: of the TensorFlow device.
        is_fixed: whether the IPUs must not be configured anew meanwhile: values that are only on
            the device would be lost.
    """
    _taken[owner] = _Taken(ordinal, is_fixed)


def give_back(owner: Any) -> None:
    """Gives a device back; nothing happens if the owner has none.

    Args:
        owner: who has it.
    """
    with LOCK:
        _taken.pop(owner, None)


def taken_by(owner: Any) -> int | None:
    """Returns the ordinal of the device that an owner has; None without one.

    Args:
        owner: who has it.
    """
    found = _taken.get(owner)
    return None if found is None else found.ordinal


def is_free() -> bool:
    """Returns whether nobody has a device."""
    return not _taken


def is_fixed() -> bool:
    """Returns whether an owner of a device needs the configuration unchanged."""
    return any(entry.is_fixed for entry in _taken.values())


def find(ipus: int, process_count: int = 1, ids: Sequence[int] | None = None) -> int | None:
    """Returns the ordinal of a device of the configuration that nobody has; None without one.

    Args:
        ipus: how many IPUs it has.
        process_count: how many processes the configuration is for.
        ids: its IPUs; any by default.
    """
    if not system.is_configured() or system.current().process_count != process_count:
        return None
    ordinals = {entry.ordinal for entry in _taken.values()}
    for device in system.current().devices:
        fits = device.num_ipus == ipus and device.ordinal not in ordinals
        if fits and (ids is None or set(device.ipus) == set(ids)):
            return device.ordinal
    return None


def add(ipus: int, number: int | None = None, instances: Instances | None = None) -> int | None:
    """Configures the IPUs anew with one device more; devices that somebody has keep their places.

    If they are too many, those at the end that nobody has go.

    Args:
        ipus: how many IPUs it has.
        number: its number in the listing of the machine; any by default.
        instances: the processes that the configuration is for; those of the configuration in
            force by default.

    Returns:
        The ordinal; None if the machine has too few IPUs left, or an owner needs the
        configuration as it is.
    """
    if is_fixed():
        return None
    if not _are_listed(ipus):
        return _add_by_size(ipus, instances)
    present = _present()
    for before in (present, present[: _kept()]):
        busy = {ipu for entry in before for ipu in entry.ipus}
        machine = system.current().machine
        wanted = machine.by_count(ipus, busy) if number is None else machine.by_id(number)
        if wanted is None or busy & set(wanted.ipus):
            continue
        if _configured([*(entry.id for entry in before), wanted.id], [], instances):
            return len(before)
    return None


def set_instances(config: IPUConfig, instances: Instances) -> None:
    """Writes into a configuration which of the processes this is; one is no distribution.

    Args:
        config: the configuration, to be changed.
        instances: the processes that share the replicas of programs.
    """
    several = instances.count > 1
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count = instances.count if several else 0
    distribution.process_index = instances.index if several else 0


def _kept() -> int:
    """Returns how many devices, from the first on, have to stay."""
    return max((entry.ordinal for entry in _taken.values()), default=-1) + 1


def _are_listed(ipus: int) -> bool:
    """Returns whether the machine lists a new device beside all configured ones.

    It lists none of the IPU model of the flags, and none with more IPUs than the machine has.
    """
    devices = system.current().devices if system.is_configured() else ()
    sizes = system.current().machine.sizes
    return ipus in sizes and all(device.num_ipus in sizes for device in devices)


def _add_by_size(ipus: int, instances: Instances | None) -> int | None:
    """Adds a device by its number of IPUs: the machine does not list all of them."""
    devices = system.current().devices[: _kept()] if system.is_configured() else ()
    sizes = [device.num_ipus for device in devices]
    return len(sizes) if _configured([], [*sizes, ipus], instances) else None


def _present() -> list[MachineConfiguration]:
    """Returns the devices of the configuration in force, as entries of the machine's listing."""
    if not system.is_configured():
        return []
    listed = {frozenset(entry.ipus): entry for entry in system.current().machine.configurations}
    return [listed[frozenset(device.ipus)] for device in system.current().devices]


def _configured(numbers: list[int], sizes: list[int], instances: Instances | None) -> bool:
    """Configures devices by numbers or by sizes; returns whether there are such."""
    config = copy.deepcopy(system.current().settings)
    config.select_ipus, config.auto_select_ipus = [], []
    config.select_ipus, config.auto_select_ipus = numbers, sizes
    if instances is not None:
        set_instances(config, instances)
    try:
        system.reconfigure(config)
    except tf.errors.OpError:
        return False
    return True
