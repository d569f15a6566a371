"""`tensorflow-ipu doctor`: checks that programs can run here, and prints corrections."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from tensorflow_ipu.cli.diagnosis import findings
from tensorflow_ipu.cli.diagnosis.examination import examine
from tensorflow_ipu.cli.diagnosis.findings import Level
from tensorflow_ipu.cli.parsing import Parser

_EXAMPLES = (
    ("tensorflow-ipu doctor", "all checks, in some seconds"),
    ("tensorflow-ipu doctor --json --timeout 300", "for programs, on a slow machine"),
)

# TensorFlow takes seconds to import, and a minute or more from a cold network drive.
_SECONDS = 120.0


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Checks Python, the packages, TensorFlow and its plugin, Keras, a small program on one "
        "IPU, the variables of the environment, the cache and the compiler. Each line is ok, a "
        "warning or a problem, with a line to paste that mends it. Exits with 1 if there is a "
        "problem. Nothing is changed."
    )
    parser.examples = _EXAMPLES
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=_SECONDS,
        metavar="SECONDS",
        help=f"for a process that imports TensorFlow (default {_SECONDS:g})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the findings of all checks."""
    found = examine(options.timeout, os.environ, Path.cwd())
    if options.json:
        print(json.dumps(findings.to_dict(found), indent=2))
    else:
        print(findings.to_text(found))
    return 1 if findings.worst(found) is Level.PROBLEM else 0


def _seconds(text: str) -> float:
    """Reads a time limit."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0; received {text!r}")
    return seconds
