"""Counts of the launches of programs, across configurations."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tensorflow_ipu.compiler import observers
from tensorflow_ipu.profiler.report import Executions
from tensorflow_ipu.runtime import native

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorflow_ipu.compiler.executable import Executable


class Tracker:
    """Counts of the launches of programs, from the moment that each is watched.

    Args:
        on_reset: called when the configuration changes, while the programs are still known.
    """

    def __init__(self, on_reset: Callable[[], None] | None = None) -> None:
        self._on_reset = on_reset
        self._begin: dict[str, Executions] = {}
        self._end: dict[str, Executions] = {}
        self._watched: dict[str, Executable] = {}
        _trackers.add(self)

    @property
    def executables(self) -> tuple[Executable, ...]:
        """The programs that are watched, in the order in which that began."""
        return tuple(self._watched.values())

    def watch(self, executable: Executable) -> None:
        """Starts counting the launches of a program, and keeps it; once is enough."""
        if executable.id not in self._watched:
            executable.keep_sources()
            self._begin[executable.id] = Executions(executable.launches, executable.seconds)
            self._watched[executable.id] = executable

    def executions(self, executable: Executable) -> Executions:
        """Returns launches and host seconds of a program since it is watched.

        Args:
            executable: a program that is watched.
        """
        begin = self._begin[executable.id]
        end = self._end.get(executable.id) or Executions(executable.launches, executable.seconds)
        return Executions(
            end.launches - begin.launches, max(0.0, end.host_seconds - begin.host_seconds)
        )

    def freeze(self) -> None:
        """Stops counting."""
        for executable in self.executables:
            now = Executions(executable.launches, executable.seconds)
            self._end.setdefault(executable.id, now)

    def before_reset(self) -> None:
        """Records the numbers that the engine is about to drop."""
        self.freeze()
        if self._on_reset is not None:
            self._on_reset()

    def clear(self) -> None:
        """Drops all programs."""
        for numbers in (self._begin, self._end, self._watched):
            numbers.clear()


# The trackers that are in use.
_trackers: weakref.WeakSet[Tracker] = weakref.WeakSet()


def _before_reset() -> None:
    """Called before the engine drops programs: waits for running ones, as the engine would."""
    watching = [tracker for tracker in tuple(_trackers) if tracker.executables]
    if watching:
        native.wait_idle()
    for tracker in watching:
        tracker.before_reset()


observers.observe_resets(_before_reset)
