"""Warnings that are logged once in a process: `warn_once`."""

from __future__ import annotations

import threading
from typing import Any

from absl import logging

_lock = threading.Lock()
_said: set[str] = set()


def warn_once(message: str, *args: Any, key: str | None = None) -> None:
    """Logs a warning, unless this process has logged it before.

    Args:
        message: the text, with a `%` conversion for each argument.
        *args: what goes into the text.
        key: what warnings of one kind have in common, of which only the first is logged; by
            default each text is logged once.
    """
    said = message % args if key is None else key
    with _lock:
        if said in _said:
            return
        _said.add(said)
    logging.warning(message, *args)


def _forget_for_tests() -> None:
    """Lets all warnings be logged again, as a new process would."""
    with _lock:
        _said.clear()


# The line of the log names the file and line of whoever warns.
logging.ABSLLogger.register_frame_to_skip(__file__, "warn_once")
