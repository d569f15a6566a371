"""Attachment of PopART's devices to TensorFlow devices with as many IPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tensorflow_ipu.compiler.checks.capacity import chosen_policy
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances, of_poprun
from tensorflow_ipu.frontends.common import device_table
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.runtime import system
from tensorflow_ipu.runtime.attachment import ipus_reserved
from tensorflow_ipu.tuning.advice import out_of_memory
from tensorflow_ipu.util.notices import warn_once


def attach(
    owner: Any, ipus: int, number: int | None = None, ids: Sequence[int] | None = None
) -> int | None:
    """Returns the ordinal of a TensorFlow device, which the owner has until `detach`.

    A free device of the configuration serves. If there is none, the IPUs are configured anew:
    those that others have keep their places. TensorFlow devices have powers of two of IPUs: of
    one for 3 IPUs the fourth is idle.

    Args:
        owner: the device of PopART.
        ipus: how many IPUs it has.
        number: its number in the listing of the machine; any by default.
        ids: its IPUs, if it has a number.

    Returns:
        The ordinal; None if the machine has too few IPUs left, or they are not free.
    """
    with device_table.LOCK:
        found = device_table.taken_by(owner)
        if found is not None:
            return found
        instances = _joined()
        ipus = ipus_reserved(ipus)
        found = device_table.find(ipus, instances.count, ids)
        if found is None:
            found = device_table.add(ipus, number, instances)
        if found is not None:
            device_table.take(owner, found, is_fixed=False)
        return found


def _joined() -> Instances:
    """Returns the processes that run this program; those that a launcher started join."""
    launched = of_poprun()
    if launched.count > 1 and joining.current().count == 1:
        warn_once(
            "Devices of PopART join the processes that poprun has started. This is deprecated: "
            "call popdist.init() first."
        )
        joining.join(launched)
    return joining.current()


def detach(owner: Any) -> None:
    """Gives a device back.

    Args:
        owner: the device of PopART.
    """
    device_table.give_back(owner)


class _Borrower:
    """Has a device for as long as a program is compiled for it."""


@contextlib.contextmanager
def borrowed(ipus: int, ordinal: int | None) -> Iterator[int]:
    """Gives a device to compile for.

    Args:
        ipus: how many IPUs it has.
        ordinal: of the TensorFlow device, if there is one already.

    Yields:
        The ordinal of a TensorFlow device.

    Raises:
        popart_exception: If the machine has too few IPUs left.
    """
    if ordinal is not None:
        yield ordinal
        return
    borrower = _Borrower()
    found = attach(borrower, ipus)
    if found is None:
        raise popart_exception(
            f"A program for {ipus} IPUs cannot be compiled: not so many are free. Detach a device."
        )
    try:
        yield found
    finally:
        detach(borrower)


def check_replicas(ordinal: int, ipus: int, replicas: int) -> None:
    """Refuses a device that would run a program on another number of replicas.

    Args:
        ordinal: of the TensorFlow device.
        ipus: IPUs of a replica.
        replicas: number of replicas in this process.

    Raises:
        popart_exception: If the device would run another number.
    """
    found = system.current().replication_factor(ordinal, ipus)
    if found != replicas:
        raise popart_exception(
            f"{replicas} replica(s) of {ipus} IPU(s) cannot run: the device would run {found}. Set "
            "replicatedGraphCount to a power of two; the IPU model of TF_POPLAR_FLAGS does not "
            "replicate."
        )


def refuses_what_does_not_fit() -> bool:
    """Returns whether programs that do not fit into memory are errors."""
    return chosen_policy(system.current()) in (out_of_memory.DEFAULT, out_of_memory.RAISE)


def chip() -> Chip:
    """Returns the chip of the machine."""
    return system.current().machine.chip


def generation() -> int:
    """Returns the number of the configuration in force: programs of another one are gone."""
    return system.current().generation
