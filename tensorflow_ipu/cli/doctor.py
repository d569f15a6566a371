"""`tensorflow-ipu doctor`: checks that programs can run here, and prints corrections."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.cli.diagnosis import checks, running
from tensorflow_ipu.cli.diagnosis.checks import Finding, Level
from tensorflow_ipu.distributed.launcher.environment import COUNT, INDEX

# --- Order of the checks ---


def examine(seconds: float, environment: Mapping[str, str], folder: Path) -> list[Finding]:
    """Runs all checks.

    Args:
        seconds: that a process with TensorFlow may take.
        environment: of programs.
        folder: where programs are started.
    """
    found = [checks.python()]
    found += _guarded("packages", checks.requirements)
    found.append(checks.plugin())
    misfit = checks.misfit()
    if misfit is not None:
        found.append(misfit)
    elif checks.tensorflow():
        found += _guarded("TensorFlow", lambda: _run(seconds, environment))
    found += _guarded("variables", lambda: _variables(environment))
    found.append(checks.compiler())
    around = (checks.instance(environment, (COUNT, INDEX)), checks.hiding_files(folder))
    return [*found, *(finding for finding in around if finding is not None)]


def _run(seconds: float, environment: Mapping[str, str]) -> list[Finding]:
    """Runs the checks that need TensorFlow in a new process, or in two if the first fails early."""
    probed = running.probe(seconds)
    bare = None
    if "tensorflow" not in probed.steps or probed.failure("tensorflow"):
        bare = running.probe(seconds, "--without-plugins")
    return running.check(probed, bare, environment)


def _variables(environment: Mapping[str, str]) -> list[Finding]:
    """Checks the environment and the folder that it names. Reading flags needs packages."""
    from tensorflow_ipu.cli.diagnosis import variables

    found = variables.check(environment)
    folder = variables.cache_folder(environment)
    return found if folder is None else [*found, checks.cache(folder)]


def _guarded(subject: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Runs a check; returns its failure as a finding, too."""
    try:
        return check()
    except ImportError as error:
        text = f"not checked, as packages are missing: {error}"
        return [Finding(subject, Level.WARNING, text, checks.INSTALL)]


# --- Command ---

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
        print(json.dumps(checks.to_dict(found), indent=2))
    else:
        print(checks.to_text(found))
    return 1 if checks.worst(found) is Level.PROBLEM else 0


def _seconds(text: str) -> float:
    """Reads a time limit."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0; received {text!r}")
    return seconds
