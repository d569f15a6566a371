"""Notifies observers of compiled programs and of new configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.device.attachment import System

Observer = Callable[["Executable"], None]

_observers: list[Observer] = []
_reset_observers: list[Callable[[], None]] = []


def observe(observer: Observer) -> None:
    """Calls a function with each program after it is compiled, before its memory is checked.

    Args:
        observer: the function. It must not raise.
    """
    _observers.append(observer)


def forget(observer: Observer) -> None:
    """Ends what `observe` began."""
    _observers.remove(observer)


def observe_resets(observer: Callable[[], None]) -> None:
    """Calls a function when the configuration changes, while the engine knows its programs.

    Args:
        observer: the function. It must not raise.
    """
    _reset_observers.append(observer)


def configuring(_: System) -> None:
    """Tells that the configuration changes; called before the engine drops its programs."""
    for observer in tuple(_reset_observers):
        observer()


def compiled(executable: Executable) -> None:
    """Notifies the observers of a program that was compiled.

    Args:
        executable: the program.
    """
    for observer in tuple(_observers):
        observer(executable)
