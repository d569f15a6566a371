"""Finding lines of a test in messages and reports."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any


def line_of(function: Any, text: str) -> int:
    """Returns the number of the first line of a function that contains a text."""
    lines, start = inspect.getsourcelines(function)
    return start + next(index for index, line in enumerate(lines) if text in line)


def place_of(function: Any, text: str) -> str:
    """Returns `/path/test.py:12 `, as errors write the first line that contains a text."""
    return f"{inspect.getsourcefile(function)}:{line_of(function, text)} "


def short_place_of(function: Any, text: str) -> str:
    """Returns `test.py:12 (function)`, as reports and listings write it."""
    file = Path(str(inspect.getsourcefile(function))).name
    return f"{file}:{line_of(function, text)} ({function.__name__})"
