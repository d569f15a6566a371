"""`tensorflow-ipu run PROGRAM`: runs an older program unchanged."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys

from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.compat import runner
from tensorflow_ipu.distributed.launcher import main as launcher

_EXAMPLES = (
    ("tensorflow-ipu run train.py --epochs 3", "as `python train.py --epochs 3`"),
    ("tensorflow-ipu run --instances 2 train.py", "as two processes that share the work"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Runs a program as `python PROGRAM ARGUMENT ...` does. What TensorFlow 2.15, "
        "Keras, NumPy and Python dropped is there; what the program used of it is said at the end. "
        "With --instances several processes run the program together, as with poprun."
    )
    parser.usage = (
        "tensorflow-ipu run [-h] [--tensorflow {1,2}] [--quiet] [--instances N ...] "
        "(PROGRAM | -m MODULE) [ARGUMENT ...]"
    )
    parser.examples = _EXAMPLES
    parser.add_argument("--quiet", action="store_true", help="do not say what was used")
    launcher.add_options(parser, count=("--instances", "--num-instances"))
    add_program(parser)


def add_program(parser: Parser) -> None:
    """Adds the arguments that name a program.

    Args:
        parser: of a command that runs it.
    """
    parser.add_argument(
        "--tensorflow",
        type=int,
        choices=(1, 2),
        help="which TensorFlow the program was written for; else found out from what it uses",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", metavar="PROGRAM", help="file or module")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="of the program"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the program; its errors are its own."""
    find = runner.of_module if options.module else runner.of_file
    program = find(options.program)
    if options.num_instances is not None:
        return launcher.launch(options, _alone(options))
    if given := launcher.without_number(options):
        raise ValueError(f"{given[0]} is for several processes: say --instances N, too.")
    return in_this_process(program, options, options.quiet)


def in_this_process(program: runner.Invocation, options: argparse.Namespace, quiet: bool) -> int:
    """Runs a program in this process; Ctrl-C ends it as it ends Python.

    Args:
        program: the program.
        options: the arguments of `add_program`.
        quiet: whether not to say which shims were used.

    Returns:
        The exit code.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="strict")  # as Python has it
    try:
        return runner.run(program, options.arguments, options.tensorflow, quiet)
    except KeyboardInterrupt:
        # As Python ends: the parent process sees that it was interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGINT)
        raise


def _alone(options: argparse.Namespace) -> list[str]:
    """Returns the command line of one of several processes."""
    words = [sys.executable, "-m", "tensorflow_ipu.cli", "run"]
    if options.tensorflow is not None:
        words.append(f"--tensorflow={options.tensorflow}")
    words += ["--quiet"] * options.quiet + ["-m"] * options.module
    return [*words, options.program, *options.arguments]
