"""Telling of compiled programs: to who observes them, and to reports that options ask for.

Reports are made by `tensorflow_ipu.profiler`, which knows the compiler. So nothing of it is
imported here until an option asks for a report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorflow_ipu.configs import flags
from tensorflow_ipu.device import system

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable

Observer = Callable[["Executable"], None]

_observers: list[Observer] = []
_reset_observers: list[Callable[[], None]] = []


def observe(observer: Observer) -> None:
    """Has a function called with each program after it is compiled, before its memory is checked.

    Args:
        observer: the function. It must not raise.
    """
    _observers.append(observer)


def forget(observer: Observer) -> None:
    """Ends what `observe` began."""
    _observers.remove(observer)


def observe_resets(observer: Callable[[], None]) -> None:
    """Has a function called when the configuration changes, while the engine knows its programs.

    Args:
        observer: the function. It must not raise.
    """
    _reset_observers.append(observer)


def configuring(_: system.System) -> None:
    """Tells that the configuration changes; called before the engine drops its programs."""
    for observer in tuple(_reset_observers):
        observer()


def compiled(executable: Executable) -> None:
    """Tells of a program that was compiled.

    Args:
        executable: the program.

    Raises:
        ValueError: an option about reports has a value that it does not take.
    """
    for observer in tuple(_observers):
        observer(executable)
    if executable.on_device and _asked():
        from tensorflow_ipu.profiler import automatic

        automatic.compiled(executable)


def _asked() -> bool:
    """Whether options or flags may ask for files or log lines about programs."""
    parsed, attached = flags.parsed(), system.current()
    return (
        parsed.log_cycle_count >= 0
        or bool(parsed.save_interval_report or parsed.tensor_map_file_path)
        or parsed.dump_schedule_as_dot
        or bool(attached.options.profiling.report_directory)
        or any(name.startswith("autoReport.") for name in attached.engine_options)
    )
