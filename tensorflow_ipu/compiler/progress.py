"""Shows the progress bar of a compilation."""

from __future__ import annotations

import sys
import time

from tensorflow_ipu.compiler.ir.program import Program

_WIDTH = 50


class Progress:
    """Prints how far a compilation is to stderr."""

    def __init__(self, name: str, steps: int, wanted: str) -> None:
        """Starts the bar.

        Args:
            name: name of the program.
            steps: how many calls will be made.
            wanted: whether it is shown: "true", "false", or "auto" for only if stderr is a
                terminal.
        """
        self._shown = wanted == "true" or (wanted == "auto" and sys.stderr.isatty())
        self._steps = steps
        self._done = 0
        self._start = time.monotonic()
        self._write(f"Compiling module {name}:\n")

    def __call__(self, _: str, __: Program) -> None:
        """Advances the bar: an observer of the pass pipeline."""
        self._done += 1
        share = self._done / self._steps
        bar = "#" * round(_WIDTH * share)
        elapsed = time.monotonic() - self._start
        end = "\n" if self._done == self._steps else ""
        self._write(f"\r[{bar:<{_WIDTH}}] {share:4.0%} {elapsed:.1f} s{end}")

    def _write(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(text)
            sys.stderr.flush()
