"""Reports that options and flags request, written when a program is compiled.

No failure here keeps a program from running. A file that cannot be written is one warning for each
folder, and a failure of the model an error in the log. Only invalid values of options are errors of
the program.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from absl import logging

from tensorflow_ipu.profiler import flag_outputs, report_directory
from tensorflow_ipu.profiler.host.recorder import Recorder
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.profiler.report_directory import ReportOptions
from tensorflow_ipu.profiler.session import Tracker
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util import private_files

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable


@dataclasses.dataclass(frozen=True)
class _Written:
    """A report whose numbers of executions are renewed at the end."""

    report: Report
    path: Path
    options: ReportOptions


class _Automatic:
    """The reports that were written for the configuration in force."""

    def __init__(self) -> None:
        self.tracker = Tracker(on_reset=self.renew)
        self.written: dict[str, _Written] = {}
        self.recorder: Recorder | None = None
        atexit.register(self.renew)

    def add(self, executable: Executable, options: ReportOptions) -> str:
        """Writes the report of a program that was just compiled; returns its directory."""
        with _not_fatal("Reports", options.directory):
            report = Report.from_executable(executable)
            path = report_directory.make(options.directory)
            report_directory.write(report, path, options)
            logging.info("The report of %s is in %s.", executable.name, path)
            self.tracker.watch(executable)
            if self.recorder is None and options.execution:
                self.recorder = Recorder()  # the compilation that made this report is noted, too
            self.written[executable.id] = _Written(report, path, options)
            return str(path)
        return ""

    def renew(self) -> None:
        """Writes executions and the host's activity into the reports, and drops the programs."""
        recorder, self.recorder = self.recorder, None
        host = None if recorder is None else recorder.stop()
        for executable in self.tracker.executables:
            entry = self.written.get(executable.id)
            done = self.tracker.executions(executable)
            if entry is None or not entry.options.execution or done == Executions():
                continue
            with _not_fatal("Reports", entry.options.directory):
                renewed = entry.report.with_executions(done)
                report_directory.write(renewed, entry.path, entry.options, host)
        self.tracker.clear()
        self.written.clear()


_automatic: list[_Automatic] = []


def compiled(executable: Executable) -> str:
    """Writes and logs the requested outputs of a program just compiled.

    Args:
        executable: the program.

    Returns:
        The directory of its report; empty if none was requested, or none could be written.

    Raises:
        ValueError: an option has an invalid value.
    """
    options = report_directory.read(executable.system)
    directory = ""
    if options is not None:
        if not _automatic:
            _automatic.append(_Automatic())
        directory = _automatic[0].add(executable, options)
    flags = executable.system.flags
    if flags.log_cycle_count >= 0:
        with _not_fatal("Cycles", "the log"):
            native.log_launches(executable.id, flag_outputs.cycle_line(executable, flags))
    for name, write in flag_outputs.FILES.items():
        folder = getattr(flags, name)
        if folder:
            with _not_fatal(f"Files of --{name}", folder if isinstance(folder, str) else "."):
                write(executable, folder)
    return directory


@contextlib.contextmanager
def _not_fatal(what: str, folder: str) -> Iterator[None]:
    """Context: turns a write error into a warning, and any other error into a log line."""
    try:
        yield
    except OSError as error:
        private_files.warn_not_written(what, folder, error)
    except Exception:  # noqa: BLE001 - the model must not keep a program from running
        logging.exception("%s cannot be made. The program runs on without them.", what)
