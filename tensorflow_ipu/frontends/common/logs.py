"""`Logger`: the log of PopART by part and level, whose target the environment sets."""

from __future__ import annotations

import datetime
import json
import os
import sys
import threading
from typing import NamedTuple

from tensorflow_ipu.util import private_files

# Level -> its letter in a line, from the most to the fewest messages.
LEVELS = {"TRACE": "T", "DEBUG": "D", "INFO": "I", "WARN": "W", "ERR": "E", "CRITICAL": "C"}
OFF = "OFF"
PARTS = (
    *("popart", "session", "ir", "devicex", "transform", "pattern", "builder", "op", "opx", "ces"),
    *("python", "none"),
)
_ALL = "all"
# The libraries that PopART compiles with: their level has a variable of its own.
_LIBRARIES = "poplibs"
_ORDER = (*LEVELS, OFF)


class _State(NamedTuple):
    """The log settings of this process.

    Args:
        levels: the level of each part; filled when it is first asked for.
        lines: lines written to a file so far.
    """

    levels: dict[str, str]
    lines: list[str]


_state = _State({}, [])


class Logger:
    """Logs messages of one part of PopART, or sets the level of all."""

    def __init__(self, name: str = _ALL) -> None:
        """Takes the part.

        Args:
            name: the part; "all" for all of them.
        """
        self.name = name

    def __repr__(self) -> str:
        return f"Logger[{self.name} {_level(self.name)}]"

    def setLevel(self, level: str) -> None:
        """Sets which messages are shown.

        Args:
            level: "TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL" or "OFF"; other names stand
                for "OFF".
        """
        for part in (*PARTS, _LIBRARIES) if self.name == _ALL else (self.name,):
            _state.levels[part] = _known(level)

    def trace(self, message: str) -> None:
        """Logs a message of the level TRACE.

        Args:
            message: the text.
        """
        self._log("TRACE", message)

    def shows(self, level: str) -> bool:
        """Returns whether messages of a level are shown: making them may cost time.

        Args:
            level: the level, such as "DEBUG".
        """
        return _ORDER.index(level) >= _ORDER.index(_level(self.name))

    def debug(self, message: str) -> None:
        """Logs a message of the level DEBUG.

        Args:
            message: the text.
        """
        self._log("DEBUG", message)

    def info(self, message: str) -> None:
        """Logs a message of the level INFO.

        Args:
            message: the text.
        """
        self._log("INFO", message)

    def warn(self, message: str) -> None:
        """Logs a message of the level WARN.

        Args:
            message: the text.
        """
        self._log("WARN", message)

    def error(self, message: str) -> None:
        """Logs a message of the level ERR.

        Args:
            message: the text.
        """
        self._log("ERR", message)

    def critical(self, message: str) -> None:
        """Logs a message of the level CRITICAL.

        Args:
            message: the text.
        """
        self._log("CRITICAL", message)

    def _log(self, level: str, message: str) -> None:
        if not self.shows(level):
            return
        now = datetime.datetime.now(datetime.timezone.utc)
        namespace = "popart:popart" if self.name == _ALL else f"popart:{self.name}"
        namespace = _LIBRARIES if self.name == _LIBRARIES else namespace
        thread = f"{os.getpid()}.{threading.get_native_id()}"
        _write(f"{now:%Y-%m-%dT%H:%M:%S.%fZ} {namespace} {thread} {LEVELS[level]}: {message}")


def _known(level: str) -> str:
    return level if level in _ORDER else OFF


def _level(name: str) -> str:
    """Returns the level of a part, as the environment says it if nobody has set it."""
    part = "popart" if name == _ALL else name
    if part == _LIBRARIES and os.environ.get("POPLIBS_LOG_LEVEL"):
        return _known(os.environ["POPLIBS_LOG_LEVEL"])
    if part not in _state.levels:
        _state.levels[part] = _known(_configured().get(part) or _of_environment())
    return _state.levels[part]


def _of_environment() -> str:
    return os.environ.get("POPART_LOG_LEVEL") or "WARN"


def _configured() -> dict[str, str]:
    """Returns the levels in the file that the environment names."""
    path = os.environ.get("POPART_LOG_CONFIG")
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"POPART_LOG_CONFIG={path} is no JSON file of levels by part: {error}"
        ) from error


def _write(line: str) -> None:
    """Writes a line where the environment says."""
    target = os.environ.get("POPART_LOG_DEST", "stderr")
    if target in ("stdout", "stderr"):
        print(line, file=sys.stdout if target == "stdout" else sys.stderr)
        return
    _state.lines.append(line)
    private_files.write_text(target, "\n".join([*_state.lines, ""]))
