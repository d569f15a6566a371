"""`tensorflow-ipu diff A B`: compares two reports by layer."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tensorflow_ipu.cli import files
from tensorflow_ipu.profiler import comparison, snapshot


def add(commands: Any) -> None:
    """Adds the command.

    Args:
        commands: the subparsers of the tool.
    """
    parser = commands.add_parser("diff", help="compare two reports, by layer")
    parser.add_argument("before", metavar="A", help="report, or its folder")
    parser.add_argument("after", metavar="B", help="report, or its folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if there are any")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the differences."""
    before, after = (
        snapshot.of_plan(files.load(path).plan) for path in (options.before, options.after)
    )
    changes = comparison.differences(before, after)
    if options.json:
        print(json.dumps({"differences": comparison.changes_to_dict(changes)}, indent=2))
    else:
        print(comparison.format_changes(changes))
    return 1 if changes and options.exit_code else 0
