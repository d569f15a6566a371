"""`tensorflow-ipu passes PROGRAM`: prints programs for the IPU after each pass of the compiler."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from tensorflow_ipu.cli import run as run_command
from tensorflow_ipu.cli.console import Parser, suggestion
from tensorflow_ipu.compat import runner
from tensorflow_ipu.util import private_files

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.ir.program import Program
    from tensorflow_ipu.compiler.observers import StepDone

_EXAMPLES = (
    ("tensorflow-ipu passes train.py --epochs 1", "the text after each pass"),
    ("tensorflow-ipu passes --changes train.py", "the lines that each pass changes"),
    ("tensorflow-ipu passes --pass place_ops train.py", "the text before and after one pass"),
)


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.description = (
        "Runs a program as `tensorflow-ipu run` does. Of each program that it compiles for the "
        "IPU, prints the text as traced, the checks, and the text after each pass."
    )
    parser.usage = (
        "tensorflow-ipu passes [-h] [--pass NAME] [--changes] [-o FILE] [--tensorflow {1,2}] "
        "(PROGRAM | -m MODULE) [ARGUMENT ...]"
    )
    parser.examples = _EXAMPLES
    parser.add_argument(
        "--pass", dest="only", metavar="NAME", help="print only this pass, with the text before it"
    )
    parser.add_argument(
        "--changes", action="store_true", help="print changed lines, and no pass without any"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file; else to stdout")
    run_command.add_program(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the program, and prints its programs for the IPU."""
    # Free of TensorFlow, which the program itself has to import, with shims around it.
    from tensorflow_ipu.compiler import observers

    find = runner.of_module if options.module else runner.of_file
    program = find(options.program)
    with _opened(options.output) as file:
        printer = _Printer(file, options.only, options.changes)
        observers.observe_steps(printer)
        try:
            code = run_command.in_this_process(program, options, quiet=True)
        finally:
            observers.forget_steps(printer)
    if code == 0:
        printer.finish()
    return code


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[TextIO]:
    """Opens the file to print to; stdout without a path.

    A program may end with SystemExit, so the file is written in any case.
    """
    if path is None:
        yield sys.stdout
        return
    text = io.StringIO()
    try:
        yield text
    finally:
        private_files.write_text(path, text.getvalue())


class _Printer:
    """Printer of each Program after each check and pass.

    Args:
        file: the file to print to.
        only: the name of the only pass to print; None for all.
        changes: whether to print changed lines instead of texts.
    """

    def __init__(self, file: TextIO, only: str | None, changes: bool) -> None:
        self._file = file
        self._only = only
        self._changes = changes
        self._texts: dict[str, str] = {}  # before the next step, by program
        self._names: dict[str, None] = {}

    def __call__(self, step: StepDone, program: Program) -> None:
        """Prints a Program after a step."""
        text = str(program)
        before = self._texts.get(step.program, text)
        self._texts[step.program] = text
        if step.kind == "input":
            self._print(f"== {step.program} on {step.device} ==")
            if self._only is None and not self._changes:
                self._print(f"-- {step.name}\n{text}")
            return
        self._names[step.name] = None
        if self._only not in (None, step.name):
            return
        if step.kind == "check" or text == before:
            if not self._changes:
                outcome = "passed" if step.kind == "check" else "no change"
                self._print(f"-- {step.kind} {step.name}: {outcome}")
            return
        if self._changes:
            self._print(f"-- {step.kind} {step.name}\n{_difference(before, text)}")
            return
        if self._only is not None:
            self._print(f"-- before {step.name}\n{before}")
        self._print(f"-- {step.kind} {step.name}: changed\n{text}")

    def finish(self) -> None:
        """Checks that there was something to print.

        Raises:
            ValueError: Nothing was compiled, or no pass has the name that was given.
        """
        if not self._names:
            raise ValueError("The program has compiled nothing for the IPU in this process.")
        if self._only is not None and self._only not in self._names:
            names = ", ".join(self._names)
            meant = suggestion(self._only, list(self._names))
            raise ValueError(f"--pass: expected one of {names}; received {self._only!r}{meant}")

    def _print(self, text: str) -> None:
        print(text, file=self._file, flush=True)


def _difference(before: str, after: str) -> str:
    """Returns the changed lines of a text, with `-` and `+`, and the lines around them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    hunks = [line for number, line in enumerate(lines) if number >= 2]
    return "\n".join("  ..." if line.startswith("@@") else line for line in hunks[1:])
