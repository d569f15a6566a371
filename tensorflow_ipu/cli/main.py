"""Entry of the command line tool: finds the command and runs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tensorflow_ipu.cli import check, devices, diff, report, split, whatif

_COMMANDS = (devices, report, diff, whatif, split, check)

#: Exit codes: 0 all is well, 1 a check has failed, 2 the command cannot be carried out.
FAILED, WRONG = 1, 2


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="tensorflow-ipu",
        description="What programs for the simulated IPU need on the chip.",
        epilog="FILE is a report.json, or a folder that has one. Programs write them when "
        "autoReport.directory is set, or in a profiler.profile() block.",
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: of the command line; those of the process if not given.

    Returns:
        The exit code: 0, 1 if a check has failed, 2 if the command could not be carried out.
    """
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, OverflowError, ValueError) as error:
        print(f"tensorflow-ipu {options.command}: {error}", file=sys.stderr)
        return WRONG
    return code
