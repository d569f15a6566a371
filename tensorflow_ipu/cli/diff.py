"""`tensorflow-ipu diff A B`: compares two reports by layer."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tensorflow_ipu import private_files
from tensorflow_ipu.cli import files
from tensorflow_ipu.profiler import comparison, snapshot
from tensorflow_ipu.profiler.export import html_diff


def add(commands: Any) -> None:
    """Adds the command.

    Args:
        commands: the subparsers of the tool.
    """
    parser = commands.add_parser("diff", help="compare two reports, by layer")
    parser.add_argument("before", metavar="A", help="report, or its folder")
    parser.add_argument("after", metavar="B", help="report, or its folder")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with both side by side to a file"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if there are any")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the differences."""
    before, after = files.load(options.before), files.load(options.after)
    changes = comparison.differences(snapshot.of_plan(before.plan), snapshot.of_plan(after.plan))
    if options.json:
        print(json.dumps({"differences": comparison.changes_to_dict(changes)}, indent=2))
    else:
        print(comparison.format_changes(changes))
    if options.html:
        private_files.write_text(options.html, html_diff.page(before, after))
        print(f"wrote {options.html}", file=sys.stderr if options.json else sys.stdout)
    return 1 if changes and options.exit_code else 0
