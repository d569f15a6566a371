"""Records which shims a program used, and where."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import NamedTuple

from tensorflow_ipu.compat import sources


class Place(NamedTuple):
    """A line of a program.

    Args:
        file: as Python names it.
        line: number of the line.
    """

    file: str
    line: int


class Shim(NamedTuple):
    """A replacement that a program got for a name.

    Args:
        old: its full name in the program.
        new: what it got.
    """

    old: str
    new: str


class Usage:
    """Collects which shims were used, and where first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.paused = False
        self._places: dict[Shim, dict[Place, None]] = {}

    def note(self, shim: Shim, frame: FrameType | None = None) -> None:
        """Notes a use, unless it is one of the shims themselves.

        Args:
            shim: what was used.
            frame: who used it, or whom they called; else who called this.
        """
        place = None if self.paused else _place(frame or sys._getframe(1))
        if place is not None:
            with self._lock:
                self._places.setdefault(shim, {})[place] = None

    def shims(self) -> dict[Shim, list[Place]]:
        """Returns what was used and where, in the order of the first uses."""
        with self._lock:
            return {shim: list(places) for shim, places in self._places.items()}

    def text(self) -> str:
        """Returns a line for each shim, with its places; empty if none was used."""
        lines = []
        for shim, places in self.shims().items():
            first, more = places[0], len(places) - 1
            also = f" (and {more} more)" if more else ""
            lines.append(f"  {first.file}:{first.line}{also}: {shim.old} -> {shim.new}\n")
        if not lines:
            return ""
        count = "1 shim" if len(lines) == 1 else f"{len(lines)} shims"
        return f"tensorflow-ipu run: {count} used\n{''.join(lines)}"

    def __repr__(self) -> str:
        return f"Usage({len(self._places)} shims)"


def _place(frame: FrameType | None) -> Place | None:
    """Returns the innermost line of the program; None if the program is not on the stack."""
    while frame is not None:
        if sources.is_of_program(frame.f_code.co_filename):
            return Place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
