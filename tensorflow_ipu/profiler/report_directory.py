"""Files of a program's report, in a directory of their own."""

from __future__ import annotations

import datetime
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tensorflow_ipu.compiler import gc_pause
from tensorflow_ipu.profiler import schema
from tensorflow_ipu.profiler.export import chrome_trace, html_report, text_report
from tensorflow_ipu.profiler.host.activity import HostActivity
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_options import ReportOptions
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.notices import warn_once

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
    yield "report.html", lambda: html_report.page(report)
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
