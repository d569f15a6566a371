"""`tensorflow-ipu diff A B ...`: compares reports by speed, memory and layer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tensorflow_ipu.cli import inputs
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.profiler import comparison
from tensorflow_ipu.profiler.comparison import Difference
from tensorflow_ipu.profiler.export import html_page
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.util import private_files

_EXAMPLES = (
    ("tensorflow-ipu diff before.json after.json", "what the second program needs more"),
    ("tensorflow-ipu diff --top 3 before.json after.json", "the three largest changes"),
    ("tensorflow-ipu diff --exit-code before.json after.json", "fails if anything differs"),
)
_TOP = 12


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.examples = _EXAMPLES
    parser.add_argument("before", metavar="A", help="report, or its folder")
    parser.add_argument("after", metavar="B", nargs="+", help="other reports, or their folders")
    parser.add_argument(
        "--top",
        type=inputs.some,
        default=_TOP,
        metavar="N",
        help=f"changes of the program, of layers and of tensors to show at most (default {_TOP})",
    )
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with all side by side to a file"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with all changes")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if there are any")


def run(options: argparse.Namespace) -> int:
    """Prints the differences."""
    paths = [options.before, *options.after]
    reports = [inputs.load(path) for path in paths]
    snapshots = [comparison.of_report(report) for report in reports]
    changes = [
        comparison.largest_first(comparison.differences(snapshots[0], each))
        for each in snapshots[1:]
    ]
    if options.json:
        print(json.dumps(_data(paths, reports, changes), indent=2))
    elif not any(changes):
        print("no differences")
    else:
        print(_text(paths, reports, snapshots, changes, options.top))
    if options.html:
        private_files.write_text(options.html, html_page.comparison_page(*reports))
        print(f"wrote {options.html}", file=sys.stderr if options.json else sys.stdout)
    return 1 if any(changes) and options.exit_code else 0


def _text(
    paths: Sequence[str],
    reports: Sequence[Report],
    snapshots: Sequence[comparison.Snapshot],
    changes: Sequence[Sequence[Difference]],
    top: int,
) -> str:
    """Returns the summary, the largest changes, and changes of live tensors."""
    if len(reports) > 2:
        names = _names(paths)
        parts = [
            comparison.summary(reports, names),
            comparison.format_many(snapshots, names, top),
            comparison.live_many(reports, names, top),
        ]
        return "\n\n".join(part for part in parts if part)
    before, after = reports
    parts = [
        comparison.summary(reports, ("before", "after")),
        comparison.format_changes(changes[0], top),
        comparison.live_changes(before, after, top),
    ]
    return "\n\n".join(part for part in parts if part)


def _names(paths: Sequence[str]) -> list[str]:
    """Returns short distinct names of reports."""
    short = [Path(path).parent.name if Path(path).name == inputs.REPORT else path for path in paths]
    names = [Path(name).stem or name for name in short]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _data(
    paths: Sequence[str], reports: Sequence[Report], changes: Sequence[Sequence[Difference]]
) -> dict[str, object]:
    """Returns all as data: the differences of each report to the first."""
    summaries = [
        {"report": str(path), **comparison.summary_to_dict(report)}
        for path, report in zip(paths, reports)
    ]
    found = [comparison.changes_to_dict(each) for each in changes]
    if len(found) == 1:
        return {"reports": summaries, "differences": found[0]}
    others = [{"report": str(path), "differences": each} for path, each in zip(paths[1:], found)]
    return {"reports": summaries, "others": others}
