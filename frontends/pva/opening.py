"""`Report`, and `openReport`, which reads one."""

from __future__ import annotations

import os
from pathlib import Path

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
from tensorflow_ipu.profiler.report import Report as SavedReport

_POPLAR_FILE = b"SQLite format 3\0"


class Report(PvaObject):
    """A report: what is known of a program, and of its launches.

    Args:
        report: the report that was read.

    Attributes:
        compilation: What is known of the program.
        execution: Its modelled launches.
        instrumentationSettings: What the options asked to measure.
        poplarVersion: What made the report.
        version: The form of the report.
    """

    def __init__(self, report: SavedReport) -> None:
        self._report = report
        self._length = PrintLength()
        tree = ProgramTree(report.plan)
        self.compilation = CompilationReport(report, tree, self._length)
        self.execution = ExecutionReport(report, tree, self._length)
        self.instrumentationSettings = InstrumentationSettings(report)
        self.poplarVersion: PoplarVersion = package_version()
        self.version = ProfileReportVersion()

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

    __repr__ = shows(
        lambda self: {"": self._report.name, "launches": self._report.executions.launches}
    )


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
    return Report(SavedReport.load(path))
