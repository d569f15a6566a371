"""The user's line that makes an op, and frames of helpers that it skips."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Iterator

from tensorflow_ipu.compiler.source_map import SourceLocation

# Modules whose frames are not the user's.
_OURS = ("tensorflow_ipu.", "contextlib", "functools")
_skipped: contextvars.ContextVar[int] = contextvars.ContextVar("skipped_frames", default=0)


def users_line() -> SourceLocation | None:
    """Returns the innermost line outside of this package; None if there is none."""
    frame = sys._getframe(1)
    left = _skipped.get()
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(_OURS):
            if left == 0 or frame.f_back is None:
                return SourceLocation(
                    frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
                )
            left -= 1
        frame = frame.f_back  # type: ignore[assignment]
    return None


def users_place() -> tuple[str, int, str] | None:
    """Returns file, line and function of `users_line`."""
    line = users_line()
    return None if line is None else (line.file, line.line, line.function)


@contextlib.contextmanager
def frame_offset(count: int) -> Iterator[None]:
    """Skips frames of helpers between the user's line and the op.

    Args:
        count: how many more frames to leave out.

    Yields:
        Nothing.
    """
    token = _skipped.set(_skipped.get() + count)
    try:
        yield
    finally:
        _skipped.reset(token)
