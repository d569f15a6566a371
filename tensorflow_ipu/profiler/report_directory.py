"""Files of a program's report, in a directory of their own."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tensorflow_ipu.configs import flags, poplar_options
from tensorflow_ipu.configs.enums import ExecutionProfileType
from tensorflow_ipu.profiler import schema
from tensorflow_ipu.profiler.export import chrome_trace, html_page, text_report
from tensorflow_ipu.profiler.host_activity import HostActivity
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.runtime.system import System
from tensorflow_ipu.util import gc_pause, private_files
from tensorflow_ipu.util.notices import warn_once

# --- Options ---

# Engine options (`autoReport.*`) in POPLAR_ENGINE_OPTIONS win over
# `config.compilation_poplar_options`, and these over the private options that the legacy functions
# set.

_PREFIX = "autoReport."
_PARTS = ("outputGraphProfile", "outputExecutionProfile", "outputDebugInfo")


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """Which files to write for each program, and where.

    Attributes:
        directory: Where each program gets a directory of its own.
        execution: Whether the timeline of a launch is written too.
        launches: Number of launches that it shows.
        text_only: Whether to write reports as text only.
        max_bytes: Files that would be larger are not written.
    """

    directory: str
    execution: bool = True
    launches: int = 1
    text_only: bool = False
    max_bytes: int = 0x10000000


def read(attached: System, options: Mapping[str, str] | None = None) -> ReportOptions | None:
    """Returns the files that the options request, None if they request no reports.

    Args:
        attached: the configuration.
        options: the engine options; by default the configuration's.

    Raises:
        tf.errors.InvalidArgumentError: an engine option is not known, or has a value that it does
            not take. The variable may have changed since the system was configured.
    """
    engine = attached.engine_options if options is None else options
    poplar_options.check_engine(f"{flags.ENGINE_OPTIONS} or compilation_poplar_options", engine)
    private = attached.settings._profiling
    legacy = bool(private.report_directory)
    everything = _flag(engine, "all", False)
    profiled = private.profile_execution is not ExecutionProfileType.NO_PROFILE
    execution = _flag(engine, "outputExecutionProfile", everything or (legacy and profiled))
    graph = _flag(engine, "outputGraphProfile", everything or legacy)
    # Every report has Poplar's "debug information": names and source lines.
    debug = _flag(engine, "outputDebugInfo", everything)
    launches = int(engine.get(_PREFIX + "executionProfileProgramRunCount", 1))
    if not (graph or execution or debug):
        return None
    return ReportOptions(
        directory=engine.get(_PREFIX + "directory") or private.report_directory or ".",
        execution=execution,
        launches=launches,
        text_only=private.use_poplar_text_report,
        max_bytes=private.max_report_size,
    )


def _flag(engine: Mapping[str, str], name: str, default: bool) -> bool:
    """Returns the value of a boolean engine option."""
    text = engine.get(_PREFIX + name)
    return default if text is None else text == "true"


# --- Files ---

PREFIX = "tf_report"
_RETRIES = 100


def make(parent: str) -> Path:
    """Makes the directory of a program's report.

    Args:
        parent: where to make it; made too if it is missing.

    Returns:
        `tf_report__<ISO date and time>__<pid>` in it, as an absolute path: the program may change
        its current directory. The time has no colons, which some file systems do not take.

    Raises:
        OSError: it cannot be made.
    """
    for _ in range(_RETRIES):
        now = datetime.datetime.now().isoformat(timespec="microseconds").replace(":", "-")
        path = Path(parent).absolute() / f"{PREFIX}__{now}__{os.getpid()}"
        try:
            private_files.make_folder(path, exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"No free name for a directory of reports in {parent}.")


def write(
    report: Report, path: Path, options: ReportOptions, host: HostActivity | None = None
) -> None:
    """Writes the files of a report, over those that are there.

    Args:
        report: the report.
        path: the directory.
        options: the files to write.
        host: activity of the host, for the trace.

    Raises:
        OSError: a file cannot be written.
    """
    for name, build in _files(report, options, host):
        with gc_pause.without_collections():
            text = build()
        size = len(text.encode())
        if size > options.max_bytes:
            warn_once(
                "%s is not written: it has %d bytes, more than the %d of max_report_size.",
                path / name,
                size,
                options.max_bytes,
            )
            continue
        private_files.write_text(path / name, text)


def _files(
    report: Report, options: ReportOptions, host: HostActivity | None
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields the name of each file with a function that makes its text."""
    yield "summary.txt", lambda: text_report.text(report)
    yield "framework.json", lambda: json.dumps(_framework(report), indent=1, sort_keys=True)
    if options.text_only:
        return
    data = functools.cache(report.to_json)
    yield "report.json", data
    yield "profile.pop", data
    yield "report.html", lambda: html_page.report_page(report)
    if options.execution:
        yield "trace.json", lambda: chrome_trace.to_json(report, options.launches, host=host)


def _framework(report: Report) -> dict[str, object]:
    """Returns the program, its target and its options as data for JSON."""
    return {
        "made_by": schema.FORMAT,
        "program": report.name,
        "fingerprint": report.workload.fingerprint,
        "target": report.target,
        "options": dict(report.options),
    }
