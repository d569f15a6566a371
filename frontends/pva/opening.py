"""`Report`, and `openReport`, which reads one."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.compilation import CompilationReport
from tensorflow_ipu.frontends.pva.execution import ExecutionReport
from tensorflow_ipu.frontends.pva.instrumentation import InstrumentationSettings
from tensorflow_ipu.frontends.pva.objects import PrintLength, PvaObject
from tensorflow_ipu.frontends.pva.program_tree import ProgramTree
from tensorflow_ipu.frontends.pva.versions import (
    PoplarVersion,
    ProfileReportVersion,
    package_version,
)
from tensorflow_ipu.profiler.report import Executions
from tensorflow_ipu.profiler.report import Report as SavedReport

if TYPE_CHECKING:
    from typing_extensions import Self

_POPLAR_FILE = b"SQLite format 3\0"


class Report(PvaObject, SavedReport):
    """A report: a `Report` of `ipu.profiler`, with the names of the analysis library besides."""

    @functools.cached_property
    def compilation(self) -> CompilationReport:
        """What is known of the program."""
        return CompilationReport(self, self._tree, self._length)

    @functools.cached_property
    def execution(self) -> ExecutionReport:
        """Its modelled launches."""
        return ExecutionReport(self, self._tree, self._length)

    @property
    def instrumentationSettings(self) -> InstrumentationSettings:
        """What the options asked to measure."""
        return InstrumentationSettings(self)

    @property
    def poplarVersion(self) -> PoplarVersion:
        """What reads the report, in the place of the Poplar that made it."""
        return package_version()

    @property
    def version(self) -> ProfileReportVersion:
        """The form of the report."""
        return ProfileReportVersion()

    def listPrintLength(self, newLength: int) -> None:
        """Sets how many elements the lists of this report show of themselves.

        Args:
            newLength: the number, at least 0.

        Raises:
            ValueError: it is negative.
        """
        if newLength < 0:
            raise ValueError(
                f"listPrintLength: expected a number of elements, 0 or more; received {newLength}."
            )
        self._length.value = newLength

    def with_executions(self, executions: Executions) -> Self:
        """Returns the report with other numbers of executions, and the launches that follow.

        Args:
            executions: what the program has done by now.
        """
        renewed = super().with_executions(executions)
        vars(renewed).pop("execution", None)
        return renewed

    @functools.cached_property
    def _tree(self) -> ProgramTree:
        """The programs, which compilation and execution share."""
        return ProgramTree(self.plan)

    @functools.cached_property
    def _length(self) -> PrintLength:
        """How much lists show of themselves."""
        return PrintLength()

    __repr__ = shows(lambda self: {"": self.name, "launches": self.executions.launches})


def openReport(
    profileFilename: str | os.PathLike[str],
    debugInfoFilename: str | os.PathLike[str] | None = None,
) -> Report:
    """Reads a report.

    Args:
        profileFilename: `profile.pop` or `report.json` of a report directory, or the directory.
        debugInfoFilename: not read. Names of ops and lines of the program are in the report, so
            there is no `debug.cbor`; programs that name one run.

    Returns:
        The report.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a report of tensorflow_ipu, or of another version.
    """
    del debugInfoFilename
    path = Path(profileFilename)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(_POPLAR_FILE)) == _POPLAR_FILE:
                raise ValueError(
                    f"{path} is a profile that Poplar wrote on a chip. Its form is not public: run "
                    "the program with tensorflow_ipu and autoReport.all, and open that report."
                )
    return Report.load(path)
