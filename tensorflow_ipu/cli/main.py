"""Entry of `tensorflow-ipu`: parses the arguments and runs the command."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow_ipu
from tensorflow_ipu.cli import console
from tensorflow_ipu.cli.console import Parser, suggestion
from tensorflow_ipu.util import text

# --- Commands ---


class Command(NamedTuple):
    """One command.

    Attributes:
        name: Its name, and its module's.
        summary: Its effect, in one line.
    """

    name: str
    summary: str

    def sentence(self) -> str:
        """Returns the summary as a sentence, for a help without more text."""
        return f"{self.summary[0].upper()}{self.summary[1:]}."

    def load(self) -> Any:
        """Returns its module, which has `add` for its arguments, and `run`."""
        return importlib.import_module(f"{__package__}.{self.name}")


COMMANDS = (
    Command("doctor", "check that programs can run here, and say what to mend"),
    Command("devices", "list the IPUs of the simulated machine"),
    Command("report", "show a report, or write it in another form"),
    Command("diff", "compare reports by speed, memory and layer"),
    Command("whatif", "plan for another chip, batch, number of replicas ... without running"),
    Command("split", "find pipeline stages of equal cost"),
    Command("remedies", "find the fastest configuration that fits, and what to change for it"),
    Command("check", "compare a report with a budget; exits with 1 and prints what grew"),
    Command("run", "run a program for TensorFlow 1.15 or 2.6, PopXL or PopART as it stands"),
    Command("plan", "plan a program up to its first launch, without the memory of its variables"),
    Command("passes", "print programs for the IPU after each pass of the compiler"),
    Command(
        "migrate",
        "what to change in an older program; exits with 1 if anything",
    ),
    Command("sdk", "print the variables with which a shell compiles C++ programs for Poplar"),
    Command("completion", "print a script with which bash or zsh completes command lines"),
)


def command_named(name: str) -> Command | None:
    """Returns the command of a name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)


# --- Parser and entry ---

_TOOL = "tensorflow-ipu"

_FAULT = (
    "A file was changed after it was written, or this is a fault of tensorflow_ipu: "
    "`tensorflow-ipu --traceback COMMAND ...` shows where"
)


def parser(only: str | None = None) -> Parser:
    """Returns the parser of all commands.

    Args:
        only: the command to be used; the others are known by name, and not loaded. All are loaded
            if not given.
    """
    top = Parser(
        prog=_TOOL,
        description="Looks after IPU programs: what they need on the chip, and whether they can "
        "run here.",
        epilog="FILE is a report.json, or a folder that has one. Programs write them when "
        "autoReport.directory is set, or in a profiler.profile() block. "
        "`tensorflow-ipu COMMAND --help` has the options of a command, with examples.",
    )
    top.add_argument(
        "--version", action="version", version=f"tensorflow_ipu {tensorflow_ipu.__version__}"
    )
    top.add_argument(
        "--traceback", action="store_true", help="show where in tensorflow_ipu an error was raised"
    )
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.name, help=command.summary, description=command.sentence()
        )
        if only in (None, command.name):
            module = command.load()
            module.add(subparser)
            subparser.set_defaults(run=module.run, parser=subparser, whole=parser)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: of the command line; by default the process's.

    Returns:
        The exit code: 0, 1 if a check has failed, 2 if the command could not be carried out, 3 if a
        planned program does not fit.
    """
    words = sys.argv[1:] if arguments is None else arguments
    return console.carried_out(_TOOL, lambda: _carry_out(words))


def _carry_out(words: Sequence[str]) -> int:
    """Parses a command line and runs the command, whose packages may be missing."""
    try:
        options = _parsed(words)
    except ImportError as error:
        if "--traceback" in words:
            raise
        said = f"{error}. A package is missing or damaged: `{_TOOL} doctor` says what to do"
        return console.refuse(_TOOL, said)
    return _run(options)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line. A request for help ends the process, as do mistakes."""
    name = next((word for word in arguments if not word.startswith("-")), "")
    top = parser(only=name)
    if name and command_named(name) is None:
        names = [command.name for command in COMMANDS]
        meant = suggestion(name, names)
        top.error(f"expected one of {', '.join(names)}; received {name!r}{meant}")
    if not arguments:
        top.print_help()
        top.exit(console.WRONG)
    options, unknown = top.parse_known_args(arguments)
    if unknown:
        before = arguments[: arguments.index(name)]
        (top if unknown[0] in before else options.parser).refuse(unknown)
    return options


def _run(options: argparse.Namespace) -> int:
    """Runs the command; prints an error of its files in one line."""
    try:
        with text.room(console.width()):
            code: int = options.run(options)
    except BrokenPipeError:
        raise
    except (OSError, OverflowError, ValueError) as error:
        if options.traceback:
            raise
        return console.refuse(f"{_TOOL} {options.command}", error)
    except Exception as error:  # a file that no check has found out, or a fault
        if options.traceback:
            raise
        said = f"{type(error).__name__}: {error}. {_FAULT}"
        return console.refuse(f"{_TOOL} {options.command}", said)
    return code
