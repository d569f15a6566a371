"""The line of the user's program that a call came from."""

from __future__ import annotations

import os
import sys

from tensorflow_ipu.versions import packages


def line() -> str:
    """Returns the innermost running line of a file that is of no library: `/path/train.py:12`.

    Returns:
        The absolute path of the file and the line; empty if there is none.
    """
    folders = tuple(_folders())
    frame = sys._getframe(1)
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not file.startswith(folders):
            return f"{file}:{frame.f_lineno}" if os.path.isfile(file) else ""
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def _folders() -> list[str]:
    """Returns the folders of this package and of the libraries that are loaded."""
    files = [__file__.rsplit(f"{os.sep}device{os.sep}", 1)[0] + os.sep]
    for name in packages.LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            files.append(os.path.dirname(os.path.abspath(file)) + os.sep)
    return files
