"""`tensorflow-ipu report FILE`: shows a report or converts it to another format."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from tensorflow_ipu import private_files
from tensorflow_ipu.cli import files
from tensorflow_ipu.profiler.export import chrome_trace, html_report, text_report
from tensorflow_ipu.profiler.report import Report

_FORMATS: Mapping[str, Callable[[Report], str]] = {
    "text": text_report.text,
    "json": Report.to_json,
    "html": html_report.page,
    "trace": chrome_trace.to_json,
}


def add(commands: Any) -> None:
    """Adds the command.

    Args:
        commands: the subparsers of the tool.
    """
    parser = commands.add_parser("report", help="show a report, or write it in another form")
    parser.add_argument("file", metavar="FILE", help="report, or its folder")
    parser.add_argument(
        "--format",
        choices=list(_FORMATS),
        default="text",
        help="text (default), json, html (one file with plots), trace (for ui.perfetto.dev)",
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="write to a file, not the screen")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints or writes the report."""
    shown = _FORMATS[options.format](files.load(options.file))
    if options.output:
        private_files.write_text(options.output, shown)
        print(f"wrote {options.output}")
    else:
        print(shown)
    return 0
