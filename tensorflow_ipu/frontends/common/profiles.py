"""Reports that the engine options of a session ask for, for all front ends."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.profiler import report_directory
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.runtime.system import System
from tensorflow_ipu.util import private_files

_PREFIX, _FILE = "autoReport.", "profile.pop"
_log = Logger("session")


class Profile:
    """The report of the program of a session, in the folder `<autoReport.directory>/<name>`."""

    def __init__(self, name: str, options: report_directory.ReportOptions) -> None:
        """Takes where it is written.

        Args:
            name: the name of the session.
            options: which files to write, and below which folder.
        """
        self._name = name
        self._folder = Path(options.directory).absolute() / name
        self._options = options

    def __repr__(self) -> str:
        return f"Profile({self._folder})"

    @classmethod
    def asked_for(cls, name: str, engine: Mapping[str, Any], system: System) -> Profile | None:
        """Returns the report that engine options ask for; None if they ask for none.

        Args:
            name: the name of the session.
            engine: the engine options of the session; those of the environment win.
            system: the configuration of the program.

        Raises:
            tf.errors.InvalidArgumentError: If an option of reports has a wrong value.
        """
        given = {k: str(v) for k, v in engine.items() if k.startswith(_PREFIX)}
        options = report_directory.read(system, {**given, **system.engine_options})
        return None if options is None else cls(name, options)

    def write(self, owner: Any, executable: Executable, report: Report) -> None:
        """Writes the report now, and with the executions when its session is gone.

        Args:
            owner: the session.
            executable: its program.
            report: the report.

        Raises:
            OSError: If it cannot be written.
        """
        private_files.make_folder(self._folder)
        report_directory.write(report, self._folder, self._options)
        before = Executions.of(executable)
        weakref.finalize(owner, _renew, executable, report, self._folder, self._options, before)

    def store(self, folder: str | os.PathLike[str]) -> None:
        """Copies the report to where its compiled program is kept.

        Args:
            folder: the folder of the compiled program.

        Raises:
            OSError: If it cannot be written.
        """
        _log.info(f"Storing profiles to cache {os.fspath(folder)}")
        _copy(self._folder / _FILE, Path(folder) / self._name)

    def restore(self, folder: str | os.PathLike[str]) -> bool:
        """Copies the report back from where its compiled program is kept.

        Args:
            folder: the folder of the compiled program.

        Returns:
            Whether there is one.

        Raises:
            OSError: If it cannot be written.
        """
        kept = Path(folder) / self._name / _FILE
        if not kept.is_file():
            return False
        _log.info(f"Restoring profiles from cache {os.fspath(folder)}")
        _copy(kept, self._folder)
        return True


def _renew(
    executable: Executable,
    report: Report,
    folder: Path,
    options: report_directory.ReportOptions,
    before: Executions,
) -> None:
    """Writes a report again with the executions since."""
    done = Executions.of(executable).since(before)
    if options.execution and done != report.executions and folder.is_dir():
        try:
            report_directory.write(report.with_executions(done), folder, options)
        except OSError as error:
            private_files.warn_not_written("Reports", folder, error)


def _copy(file: Path, folder: Path) -> None:
    private_files.make_folder(folder)
    with file.open("rb") as source, private_files.replacing(folder / file.name) as target:
        shutil.copyfileobj(source, target)
