"""Output of instances: whole lines, each with the index of its instance."""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import IO, TextIO

# Bytes after which output counts as a line, though it has no end.
_LONGEST = 1 << 20

# One for both outputs: they may be the same terminal or file.
_LOCK = threading.Lock()


def start(index: int, source: IO[bytes], target: TextIO | None) -> threading.Thread:
    """Forwards the lines of one output of an instance until its end.

    If the target has no reader any more, the source is closed, so that the instance gets the same
    error as alone.

    Args:
        index: of the instance.
        source: its output; closed at the end.
        target: `sys.stdout` or `sys.stderr`; None if this process has none.

    Returns:
        The thread that does this, started.
    """
    descriptor = None if target is None else target.fileno()
    thread = threading.Thread(target=_pass_on, args=(f"[{index}] ".encode(), source, descriptor))
    thread.start()
    return thread


def say(text: str) -> None:
    """Prints a line of the launcher's own to the standard error, if there is one.

    Args:
        text: the line.
    """
    if sys.stderr is not None:
        line = f"poprun: {text}\n".encode(errors="backslashreplace")
        try:
            _write(sys.stderr.fileno(), line)
        except OSError:
            pass  # nobody reads it


def _pass_on(prefix: bytes, source: IO[bytes], target: int | None) -> None:
    with source:
        while line := source.readline(_LONGEST):
            end = b"" if line.endswith(b"\n") else b"\n"
            try:
                if target is not None:
                    _write(target, prefix + line + end)
            except OSError:
                return


def _write(target: int, data: bytes) -> None:
    """Writes all of some bytes without interleaving."""
    with _LOCK:
        while data:
            try:
                data = data[os.write(target, data) :]
            except BlockingIOError:  # a terminal that another program has set so
                select.select([], [target], [])
