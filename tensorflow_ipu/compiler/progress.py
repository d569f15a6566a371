"""Progress bar of a compilation."""

from __future__ import annotations

import sys
import time

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.runtime import notebook

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

    def __call__(self, _: str, __: Program) -> None:
        """Advances the bar: an observer of the pass pipeline."""
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
