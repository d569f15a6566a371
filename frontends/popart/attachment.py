"""Gives attached devices of PopART TensorFlow devices with as many IPUs."""

from __future__ import annotations

import contextlib
import copy
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tensorflow_ipu.device import system
from tensorflow_ipu.frontends.popart.errors import popart_exception

_lock = threading.Lock()
# Who has which device of the configuration.
_attached: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def attach(owner: Any, ipus: int) -> int | None:
    """Returns the ordinal of a TensorFlow device, which the owner has until `detach`.

    A free device of the configuration with so many IPUs serves. If there is none, the IPUs are
    configured anew: those that others have keep their places.

    Args:
        owner: the device of PopART.
        ipus: how many IPUs it has.

    Returns:
        The ordinal; None if the machine has not so many IPUs left.
    """
    with _lock:
        if owner in _attached:
            return _attached[owner]
        found = _free(ipus)
        if found is None:
            found = _add(ipus)
        if found is not None:
            _attached[owner] = found
        return found


def detach(owner: Any) -> None:
    """Gives a device back.

    Args:
        owner: the device of PopART.
    """
    with _lock:
        _attached.pop(owner, None)


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
        popart_exception: If the machine has not so many IPUs left.
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


def generation() -> int:
    """Returns the number of the configuration in force: programs of another one are gone."""
    return system.current().generation


def _free(ipus: int) -> int | None:
    """Returns the ordinal of a device that nobody has, with so many IPUs."""
    if not system.is_configured():
        return None
    taken = set(_attached.values())
    for device in system.current().devices:
        if device.num_ipus == ipus and device.ordinal not in taken:
            return device.ordinal
    return None


def _add(ipus: int) -> int | None:
    """Configures one device more; if they are too many, without those that nobody has at the end.

    Ordinals of devices that somebody has stay what they are.
    """
    present = system.current().devices if system.is_configured() else ()
    kept = max(_attached.values(), default=-1) + 1
    sizes = [device.num_ipus for device in present]
    for before in (sizes, sizes[:kept]):
        config = copy.deepcopy(system.current().settings)
        config.select_ipus = []
        config.auto_select_ipus = [*before, ipus]
        try:
            config.configure_ipu_system()
        except tf.errors.OpError:
            continue
        return len(before)
    return None
