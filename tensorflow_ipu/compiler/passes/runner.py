"""Runner of the passes."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.ir import effects
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.passes import DROPPING, LOWERING, PIPELINE, Pass

Observer = Callable[[str, Program], None]


def run(program: Program, target: Target, observer: Observer | None = None) -> None:
    """Takes a Program through all passes, in place, and checks the result.

    Args:
        program: the Program.
        target: the compilation target.
        observer: called with "input" and the Program before the first pass, and with the name of
            each pass and the Program after it.

    Raises:
        tf.errors.InternalError: If a pass leaves an illegal Program.
        tf.errors.InvalidArgumentError: If the device lacks an op of the result.
    """
    verify.check_structure(program)
    verify.check_arguments(program, target)
    if observer is not None:
        observer("input", program)
    for name, one_pass in PIPELINE.items():
        _run(name, one_pass, program, target)
        if observer is not None:
            observer(name, program)
    verify.check_supported(program)


def lower(program: Program, target: Target) -> None:
    """Runs the passes that lower a compiled Program to the host's kernels.

    Raises:
        tf.errors.InternalError: If a pass leaves an illegal Program.
    """
    for name, one_pass in LOWERING.items():
        _run(name, one_pass, program, target)
    verify.check_effects(program)


def _run(name: str, one_pass: Pass, program: Program, target: Target) -> None:
    """Runs a pass, and checks that the Program is whole and has lost no effect."""
    before = effects.counted(program)
    one_pass(program, target)
    verify.check_structure(program)
    if name not in DROPPING:
        verify.check_nothing_lost(name, before, program)
