"""Record of the shims that a program used, with their places."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import NamedTuple

from tensorflow_ipu.compat import sources


class SourceLine(NamedTuple):
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
        new: full name of the replacement.
    """

    old: str
    new: str


class Usage:
    """The shims that were used, with their first places."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.paused = False
        self._places: dict[Shim, dict[SourceLine, None]] = {}

    def note(self, shim: Shim, frame: FrameType | None = None) -> None:
        """Records a use, unless it comes from a shim.

        Args:
            shim: the shim.
            frame: frame of the user or of a callee; by default the caller's.
        """
        place = None if self.paused else _place(frame or sys._getframe(1))
        if place is not None:
            with self._lock:
                self._places.setdefault(shim, {})[place] = None

    def shims(self) -> dict[Shim, list[SourceLine]]:
        """Returns the shims used with their places, in the order of the first uses."""
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


def _place(frame: FrameType | None) -> SourceLine | None:
    """Returns the innermost line of the program; None if the program is not on the stack."""
    while frame is not None:
        if sources.is_of_program(frame.f_code.co_filename):
            return SourceLine(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
