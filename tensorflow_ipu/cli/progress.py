"""A progress line on the terminal for a long command."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def shown() -> Iterator[Callable[[str], None]]:
    """Yields a function that replaces the shown text; clears it at the end.

    The text goes to standard error, and nowhere unless that is a terminal.
    """
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield lambda text: None
        return
    try:
        yield lambda text: _write(f"\r\x1b[K{text}")
    finally:
        _write("\r\x1b[K")


def _write(text: str) -> None:
    """Writes a text and flushes it."""
    sys.stderr.write(text)
    sys.stderr.flush()
