"""The exceptions of PopART."""

from __future__ import annotations

import sys
from typing import Any

from tensorflow_ipu.frontends.common import logs
from tensorflow_ipu.frontends.common.enums import RecoveryAction
from tensorflow_ipu.frontends.common.errors import (
    popart_exception,
    popart_internal_exception,
    popart_runtime_error,
    poplar_application_runtime_error,
    poplar_exception,
    poplar_runtime_error,
    poplibs_exception,
)

__all__ = [
    "OutOfMemoryError",
    "OutOfMemoryException",
    "poplar_application_runtime_error",
    "poplar_exception",
    "poplar_recoverable_runtime_error",
    "poplar_runtime_error",
    "poplar_system_runtime_error",
    "poplar_unknown_runtime_error",
    "poplar_unrecoverable_runtime_error",
    "poplibs_exception",
    "popart_exception",
    "popart_internal_exception",
    "popart_runtime_error",
]


class poplar_system_runtime_error(poplar_runtime_error):
    """The system that runs a program fails."""


class poplar_recoverable_runtime_error(poplar_system_runtime_error):
    """The system fails, and `recoveryAction` gets it going again."""

    #: What gets it going again.
    recoveryAction = RecoveryAction.IPU_RESET


class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):
    """The system fails for good."""


class poplar_unknown_runtime_error(poplar_system_runtime_error):
    """The system fails for an unknown reason."""


def add_note(error: Exception, text: str) -> None:
    """Adds a note to an error: a traceback shows it below the message.

    Messages are those of the original, which programs compare. Before Python 3.11 tracebacks have
    no notes: the log has the text.

    Args:
        error: the error.
        text: the note.
    """
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), text]
        logs.Logger("session").error(f"{error}: {text}")


class OutOfMemoryError:
    """The state of a compilation: whether a program did not fit into memory. No exception."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"OutOfMemoryError[{self}]"

    def __str__(self) -> str:
        return "No memory_allocation_err raised" if self._error is None else str(self._error)

    def store(self, error: Exception) -> None:
        """Keeps the error of a compilation.

        Args:
            error: the error.
        """
        self._error = error

    def isSuccessful(self) -> bool:
        """Returns whether no error was stored."""
        return self._error is None

    def getSummaryReport(self) -> str:
        """Returns the memory report of the error."""
        return str(self)

    def getProfilePath(self) -> str:
        """Returns where a profile of the compilation was written; "" if there is none."""
        return ""


class OutOfMemoryException(popart_exception):
    """A program does not fit into the memory of the device."""

    def __init__(self, e: Any) -> None:
        """Takes the state of a compilation.

        Args:
            e: an `OutOfMemoryError`.
        """
        super().__init__(str(e))
        self.error = e

    def __str__(self) -> str:
        return str(self.error)

    def getSummaryReport(self) -> str:
        """Returns the memory report of the error."""
        return str(self.error.getSummaryReport())

    def getProfilePath(self) -> str:
        """Returns where a profile of the compilation was written; "" if there is none."""
        return str(self.error.getProfilePath())
