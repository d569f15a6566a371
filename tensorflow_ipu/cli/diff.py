"""`tensorflow-ipu diff A B`: compares two reports by layer."""

from __future__ import annotations

import argparse
import json
import sys

from tensorflow_ipu import private_files
from tensorflow_ipu.cli import files
from tensorflow_ipu.cli.parsing import Parser
from tensorflow_ipu.profiler import comparison, snapshot
from tensorflow_ipu.profiler.export import html_diff

_EXAMPLES = (
    ("tensorflow-ipu diff before.json after.json", "what the second program needs more"),
    ("tensorflow-ipu diff --exit-code before.json after.json", "fails if anything differs"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.examples = _EXAMPLES
    parser.add_argument("before", metavar="A", help="report, or its folder")
    parser.add_argument("after", metavar="B", help="report, or its folder")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with both side by side to a file"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if there are any")


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
