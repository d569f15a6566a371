"""Observers of compiled programs and of new configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.device.attachment import System

Observer = Callable[["Executable"], None]

_observers: list[Observer] = []
# Of observers that make reports: where these will be.
_places: dict[Observer, str] = {}
_reset_observers: list[Callable[[], None]] = []


def observe(observer: Observer, report: str = "") -> None:
    """Calls a function with each program after it is compiled, before its memory is checked.

    Args:
        observer: the function. It must not raise.
        report: where the observer will have a report of the program, in words; empty if it makes
            none.
    """
    _observers.append(observer)
    if report:
        _places[observer] = report


def forget(observer: Observer) -> None:
    """Removes an observer that `observe` added."""
    _observers.remove(observer)
    _places.pop(observer, None)


def report_place() -> str:
    """Returns the place of the report of a program being compiled; empty without a report."""
    return next((_places[observer] for observer in reversed(_observers) if observer in _places), "")


def observe_resets(observer: Callable[[], None]) -> None:
    """Calls a function when the configuration changes, while the engine knows its programs.

    Args:
        observer: the function. It must not raise.
    """
    _reset_observers.append(observer)


def configuring(_: System) -> None:
    """Notifies observers of a new configuration, before the engine drops its programs."""
    for observer in tuple(_reset_observers):
        observer()


def compiled(executable: Executable) -> None:
    """Notifies the observers of a program that was compiled.

    Args:
        executable: the program.
    """
    for observer in tuple(_observers):
        observer(executable)
