"""`tensorflow-ipu report FILE`: shows a report or converts it to another format."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from tensorflow_ipu.cli import inputs
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.frontends.poplar import profile
from tensorflow_ipu.profiler.export import chrome_trace, html_page, text_report
from tensorflow_ipu.profiler.export.trace_tracks import MOST_SLICES
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.util import private_files

_TRACE = "trace"
_FORMATS: Mapping[str, Callable[[Report], str]] = {
    "text": text_report.text,
    "json": Report.to_json,
    "html": html_page.report_page,
    _TRACE: chrome_trace.to_json,
}
_LEAST_SLICES = 100

_EXAMPLES = (
    ("tensorflow-ipu report before.json", "what the program needs, as text"),
    ("tensorflow-ipu report before.json --format html -o before.html", "the page with plots"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.examples = _EXAMPLES
    parser.add_argument("file", metavar="FILE", help="report, or its folder")
    parser.add_argument(
        "--format",
        choices=list(_FORMATS),
        default="text",
        help="text (default), json, html (one file with plots), trace (for ui.perfetto.dev)",
    )
    parser.add_argument(
        "--slices",
        type=int,
        metavar="N",
        help=f"slices that a track of a trace has at most (default {MOST_SLICES:,})",
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="write to a file, not the screen")


def run(options: argparse.Namespace) -> int:
    """Prints or writes the report."""
    poplar = profile.read(options.file)
    if poplar is None:
        shown = _shown(inputs.load(options.file), options.format, options.slices)
    else:
        shown = _poplar(poplar, options.format)
    if options.output:
        private_files.write_text(options.output, shown)
        print(f"wrote {options.output}")
    else:
        print(shown)
    return 0


def _poplar(report: profile.Profile, form: str) -> str:
    """Returns the profile of a C++ program in a format."""
    if form == "text":
        return report.summary
    if form == "json":
        return report.json
    raise ValueError(
        f"A profile of a Poplar program is shown as text or json; received --format {form}."
    )


def _shown(report: Report, form: str, slices: int | None) -> str:
    """Returns the report in a format."""
    if slices is None:
        return _FORMATS[form](report)
    if form != _TRACE:
        raise ValueError(f"--slices is for --format trace; received --format {form}.")
    if slices < _LEAST_SLICES:
        raise ValueError(f"--slices: expected {_LEAST_SLICES} or more; received {slices}.")
    return chrome_trace.to_json(report, most_slices=slices)
