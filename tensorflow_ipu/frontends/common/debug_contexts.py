"""Debug contexts: which call made each op and tensor, and its line, in a file."""

from __future__ import annotations

import itertools
import json
import secrets
import sys
from typing import Any

from tensorflow_ipu.util import private_files

#: The layers that contexts are of: builders, models, ops.
BUILDER, MODEL, OPS = "popartbuilder", "onnx", "popart"

# Models can go to other processes: ids are unique across processes.
_ids = itertools.count(secrets.randbits(30) << 32 | 1)


class _File:
    """The file that is being made.

    Args:
        path: where it will be.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.contexts: list[dict[str, Any]] = []
        self.strings: dict[str, int] = {}
        self.has_builder = False

    def number(self, text: str) -> int:
        """Returns the position of a text in the table of strings."""
        return self.strings.setdefault(text, len(self.strings))


_open: list[_File] = []


def next_id() -> int:
    """Returns an id that no other context has."""
    return next(_ids)


def begin(path: str) -> None:
    """Begins a file and drops the records of another one.

    Args:
        path: the file.
    """
    _open[:] = [_File(path)]


def is_recording() -> bool:
    """Returns whether contexts go to a file: making them may cost time."""
    return bool(_open)


def record(
    layer: str,
    name: str,
    location: tuple[str, int, str] | None,
    parent: int | None = None,
    number: int | None = None,
    **values: Any,
) -> int:
    """Adds a context to the file, if there is one.

    Args:
        layer: the part of the system that it is of.
        name: its name.
        location: file, line and function of the program, if they are known.
        parent: id of the context that it belongs to.
        number: its id; a new one by default.
        **values: further values of the context.

    Returns:
        Its id.
    """
    number = next_id() if number is None else number
    if _open:
        file = _open[0]
        context: dict[str, Any] = {"id": number, "layer": layer, "name": name}
        if parent is not None:
            context["parentId"] = parent
        if location is not None:
            path, line, function = location
            context["location"] = {
                "fileName": file.number(path),
                "functionName": file.number(function),
                "lineNumber": line,
            }
        file.contexts.append({**context, **values})
        file.has_builder |= layer == BUILDER
    return number


def record_builder(name: str) -> None:
    """Adds the context of a builder, unless the file has one.

    Args:
        name: the name of its program.
    """
    if _open and not _open[0].has_builder:
        record(BUILDER, name, None, category="builder")


def finish() -> None:
    """Writes the file that was begun; nothing happens without one.

    Raises:
        OSError: If it cannot be written.
    """
    if _open:
        file = _open.pop()
        content = {"contexts": file.contexts, "stringTable": list(file.strings)}
        private_files.write_text(file.path, json.dumps(content))


def calling_function(package: str) -> str:
    """Returns the name of the outermost function of a package on the stack; "" if there is none.

    Args:
        package: full name of the package.
    """
    frame, found = sys._getframe(1), ""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name == package or name.startswith(package + "."):
            found = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return found
