"""Observers of compilations and of their steps, and the progress bar."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tensorflow_ipu.runtime import notebook

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.compiler.ir.program import Program
    from tensorflow_ipu.runtime.attachment import System


Observer = Callable[["Executable"], None]
_observers: list[Observer] = []
# Of observers that make reports: where these will be.
_places: dict[Observer, str] = {}
_reset_observers: list[Callable[[], None]] = []
_launch_observers: list[Observer] = []
# The directories of reports that were written of Executables.
_reports: weakref.WeakKeyDictionary[Executable, str] = weakref.WeakKeyDictionary()


class StepDone(NamedTuple):
    """A check that a Program has passed, or a pass that has changed it; at first the Program.

    Args:
        program: name of the Cluster.
        device: device that it is compiled for.
        phase: phase of `compile.TABLE`.
        kind: "check", "pass", or "input" before the first step.
        name: name of the step.
    """

    program: str
    device: str
    phase: str
    kind: str
    name: str


StepObserver = Callable[[StepDone, "Program"], None]
_step_observers: list[StepObserver] = []


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


def observe_steps(observer: StepObserver) -> None:
    """Calls a function with each Program after each check and pass.

    Args:
        observer: the function. It must neither raise nor change the Program.
    """
    _step_observers.append(observer)


def forget_steps(observer: StepObserver) -> None:
    """Removes an observer that `observe_steps` added."""
    _step_observers.remove(observer)


def stepped(step: StepDone, program: Program) -> None:
    """Notifies observers of a check or pass.

    Args:
        step: the check or pass.
        program: the Program after it.
    """
    for observer in tuple(_step_observers):
        observer(step, program)


def report_place() -> str:
    """Returns the place of the report of a program being compiled; empty without a report."""
    return next((_places[observer] for observer in reversed(_observers) if observer in _places), "")


def observe_launches(observer: Observer) -> None:
    """Calls a function with each program of the user's before its first launch.

    Ops that a graph places on an IPU without compiling them are none.

    Args:
        observer: the function. It must not raise.
    """
    _launch_observers.append(observer)


def launching(executable: Executable) -> None:
    """Notifies the observers of a program that is about to be launched.

    Args:
        executable: the program.
    """
    for observer in tuple(_launch_observers):
        observer(executable)


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


def reported(executable: Executable, directory: str) -> None:
    """Notes the directory of a report that options request.

    Args:
        executable: the program.
        directory: the directory; empty if none was written.
    """
    _reports[executable] = directory


def report_of(executable: Executable) -> str:
    """Returns the directory of a report that options request; empty if none was written.

    Args:
        executable: the program.
    """
    return _reports.get(executable, "")


# --- Progress bar of a compilation ---

_WIDTH = 50


class Progress:
    """Progress of a compilation: a bar in the cell of a notebook, else on stderr."""

    def __init__(self, name: str, steps: int, wanted: str) -> None:
        """Starts the bar.

        Args:
            name: name of the program.
            steps: number of calls until the end.
            wanted: whether it is shown: "true", "false", or "auto" for only in a notebook and if
                stderr is a terminal.
        """
        in_notebook = notebook.is_running()
        shown = wanted == "true" or (wanted == "auto" and (in_notebook or sys.stderr.isatty()))
        self._name = name
        self._steps = steps
        self._done = 0
        self._start = time.monotonic()
        self._on_stderr = shown and not in_notebook
        self._bar = notebook.ProgressBar(self._text()) if shown and in_notebook else None
        self._write(f"Compiling module {name}:\n")

    def advance(self) -> None:
        """Advances the bar by one step."""
        self._done += 1
        share = self._done / self._steps
        if self._bar is not None:
            self._bar.update(share, self._text())
        bar = "#" * round(_WIDTH * share)
        end = "\n" if self._done == self._steps else ""
        self._write(f"\r[{bar:<{_WIDTH}}] {share:4.0%} {self._seconds():.1f} s{end}")

    def _text(self) -> str:
        """Returns the text beside a notebook's bar, or instead of a finished bar."""
        if self._done < self._steps:
            return f"Compiling {self._name}: {self._done / self._steps:.0%}"
        return f"Compiled {self._name} in {self._seconds():.1f} s"

    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def _write(self, text: str) -> None:
        if self._on_stderr:
            sys.stderr.write(text)
            sys.stderr.flush()
