"""Entry of `tensorflow-ipu`: parses the arguments and runs the command."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import tensorflow_ipu
from tensorflow_ipu.cli import commands
from tensorflow_ipu.cli.parsing import Parser, suggestion

#: Exit codes: 0 all is well, 1 a check has failed, 2 the command cannot be carried out.
FAILED, WRONG = 1, 2
#: That of a process that Ctrl-C has ended.
INTERRUPTED = 130

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
        prog="tensorflow-ipu",
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
    for command in commands.COMMANDS:
        subparser = subparsers.add_parser(
            command.name, help=command.summary, description=command.sentence()
        )
        if only in (None, command.name):
            module = command.load()
            module.add(subparser)
            subparser.set_defaults(run=module.run, parser=subparser)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: of the command line; those of the process if not given.

    Returns:
        The exit code: 0, 1 if a check has failed, 2 if the command could not be carried out.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names in programs may have characters that the terminal has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options = _parsed(sys.argv[1:] if arguments is None else arguments)
        code = _run(options)
        _flush()
    except BrokenPipeError:  # `| head` has read enough
        _drop_output()
        return 0
    except OSError as error:  # nothing more can be printed
        _drop_output()
        return _refuse("", error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Reads the command line. Asking for help ends the process, as do mistakes."""
    name = next((word for word in arguments if not word.startswith("-")), "")
    try:
        top = parser(only=name)
        if name and commands.named(name) is None:
            names = [command.name for command in commands.COMMANDS]
            top.error(
                f"expected one of {', '.join(names)}; received {name!r}{suggestion(name, names)}"
            )
        options, unknown = top.parse_known_args(arguments)
        if unknown:
            before = arguments[: arguments.index(name)]
            (top if unknown[0] in before else options.parser).refuse(unknown)
        return options
    finally:
        _flush()


def _run(options: argparse.Namespace) -> int:
    """Runs the command; what is wrong with its files is one line."""
    try:
        code: int = options.run(options)
    except BrokenPipeError:
        raise
    except (OSError, OverflowError, ValueError) as error:
        if options.traceback:
            raise
        return _refuse(options.command, error)
    except Exception as error:  # a file that no check has found out, or a fault
        if options.traceback:
            raise
        return _refuse(options.command, f"{type(error).__name__}: {error}. {_FAULT}")
    return code


def _refuse(command: str, error: object) -> int:
    """Says in one line why a command cannot be carried out."""
    text = " ".join(str(error).splitlines()).encode(errors="backslashreplace").decode()
    print(f"tensorflow-ipu{command and ' '}{command}: {text}", file=sys.stderr)
    return WRONG


def _flush() -> None:
    """Writes what was printed; there is nothing to write to if the output was closed."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop_output() -> None:
    """Lets what was printed and could not be written go nowhere, at the end of the process too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
