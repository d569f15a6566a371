"""`tensorflow-ipu plan PROGRAM`: plans the first program for the IPU without running it."""

from __future__ import annotations

import argparse
import os

from tensorflow_ipu.cli import run as run_command
from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.compat import runner
from tensorflow_ipu.configs import flags

_FILE = "plan.json"

_EXAMPLES = (
    ("tensorflow-ipu plan train.py --layers 96", "the plan, and plan.json"),
    ("tensorflow-ipu plan -o large.json -m training.gpt", "of a module, saved elsewhere"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Runs a program as `tensorflow-ipu run` does, up to its first launch on the IPU. Then it "
        "prints the plan of what would be launched, saves it as a report, and ends. Initializers "
        "of variables are not computed and take no memory, so the model may be larger than this "
        "machine. Exits with 3 if the program does not fit on its IPUs."
    )
    parser.usage = (
        "tensorflow-ipu plan [-h] [-o FILE] [--tensorflow {1,2}] "
        "(PROGRAM | -m MODULE) [ARGUMENT ...]"
    )
    parser.examples = _EXAMPLES
    parser.add_argument(
        "-o", "--output", metavar="FILE", default=_FILE, help=f"the report (default {_FILE})"
    )
    run_command.add_program(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the program, which ends the process with its plan.

    Returns:
        The exit code of a program that has raised before a launch.

    Raises:
        ValueError: The program has launched nothing.
    """
    find = runner.of_module if options.module else runner.of_file
    program = find(options.program)
    before = os.environ.get(flags.PLAN_VARIABLE)
    os.environ[flags.PLAN_VARIABLE] = os.path.abspath(options.output)
    try:
        code = run_command.in_this_process(program, options, quiet=True)
    finally:
        if before is None:
            del os.environ[flags.PLAN_VARIABLE]
        else:
            os.environ[flags.PLAN_VARIABLE] = before
    if code == 0:
        raise ValueError("The program has launched nothing on the IPU in this process.")
    return code
