"""`tensorflow-ipu completion SHELL`: prints a script for a shell's completion."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tensorflow_ipu.cli import devices
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.distributed.launcher import main as launcher

_EXAMPLES = (
    (
        "tensorflow-ipu completion bash > tensorflow-ipu.bash",
        "a script for bash; `source tensorflow-ipu.bash` in ~/.bashrc reads it",
    ),
    (
        "tensorflow-ipu completion zsh --program gc-info > _gc-info",
        "one for zsh, for another program; zsh looks for it in the folders of $fpath",
    ),
)

_PROGRAM = "tensorflow-ipu"
_PROGRAMS = (_PROGRAM, "gc-info", "poprun")
_SHELLS = ("bash", "zsh")

# Names of arguments in help texts that are files.
_FILES = ("A", "ARGUMENT", "B", "BUDGET", "FILE", "PROGRAM", "REPORT")


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Prints a script with which the shell completes commands, options, their values and files. "
        "It does not change with the folder or the environment; print it again after an update."
    )
    parser.examples = _EXAMPLES
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=" or ".join(_SHELLS))
    parser.add_argument(
        "--program",
        choices=_PROGRAMS,
        default=_PROGRAM,
        help=f"what is to be completed: {', '.join(_PROGRAMS)}; the first by default",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the script."""
    print(script(_parser(options), options.shell))
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Returns the script of a shell for a command line.

    Args:
        parser: of the command line.
        shell: bash or zsh.

    Raises:
        ValueError: The package that writes it is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise ValueError(f"{error}. Install it: pip install 'shtab>=1.7,<2'") from None
    for action in _arguments(parser):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    written: str = shtab.complete(parser, shell)
    return written


def _parser(options: argparse.Namespace) -> argparse.ArgumentParser:
    """Returns the parser of a program."""
    if options.program == _PROGRAM:
        whole: argparse.ArgumentParser = options.whole()
        return whole
    return devices.gc_info_parser() if options.program == "gc-info" else launcher.parser()


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the options and arguments of a parser and of its commands' parsers."""
    for action in parser._actions:
        yield action
        if isinstance(action.choices, dict):
            for each in action.choices.values():
                yield from _arguments(each)
