"""Tests of `tensorflow-ipu passes`: texts of programs after each pass, and changed lines."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tensorflow_ipu.cli import passes
from tensorflow_ipu.compiler.observers import StepDone

PROGRAM = """\
import sys
import tensorflow as tf
from tensorflow.python import ipu

@tf.function(jit_compile=True)
def step(x):
    return tf.reduce_sum(tf.square(tf.debugging.check_numerics(x, "x")))

strategy = ipu.ipu_strategy.IPUStrategy()
print(strategy.run(step, [tf.ones([4])]).numpy(), sys.argv[1:])
"""


def step(name: str, kind: str = "pass", program: str = "cluster_0__f") -> StepDone:
    """Returns a step of the phase `device`."""
    return StepDone(program, "/device:IPU:0", "device", kind, name)


def printed(*, only: str | None = None, changes: bool = False) -> str:
    """Returns the output for a program whose second pass changes a line."""
    file = io.StringIO()
    printer = passes._Printer(file, only, changes)
    printer(step("as traced", "input"), "a\nb\nc\nd")
    printer(step("feeds", "check"), "a\nb\nc\nd")
    printer(step("prune"), "a\nb\nc\nd")
    printer(step("place_ops"), "a\nb\nC\nd")
    printer.finish()
    return file.getvalue()


def test_texts_follow_passes_that_change_something() -> None:
    assert printed() == (
        "== cluster_0__f on /device:IPU:0 ==\n-- as traced\na\nb\nc\nd\n-- check feeds: passed\n"
        "-- pass prune: no change\n-- pass place_ops: changed\na\nb\nC\nd\n"
    )


def test_changes_are_lines_with_their_neighbours() -> None:
    assert printed(changes=True) == (
        "== cluster_0__f on /device:IPU:0 ==\n-- pass place_ops\n b\n-c\n+C\n d\n"
    )


def test_one_pass_is_printed_before_and_after() -> None:
    assert printed(only="place_ops") == (
        "== cluster_0__f on /device:IPU:0 ==\n-- before place_ops\na\nb\nc\nd\n"
        "-- pass place_ops: changed\na\nb\nC\nd\n"
    )


def test_a_pass_that_is_unknown_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match="received 'place_op'.*did you mean 'place_ops'"):
        printed(only="place_op")


def test_nothing_compiled_is_an_error() -> None:
    with pytest.raises(ValueError, match="has compiled nothing for the IPU"):
        passes._Printer(io.StringIO(), None, False).finish()


def test_programs_in_turn_have_texts_of_their_own() -> None:
    file = io.StringIO()
    printer = passes._Printer(file, None, True)
    for program, text in (("first", "a"), ("second", "b")):
        printer(step("as traced", "input", program), text)
    for program, text in (("first", "a"), ("second", "c")):
        printer(step("prune", program=program), text)
    assert "-b\n+c" in file.getvalue() and "-a" not in file.getvalue()


@pytest.mark.process
def test_a_program_prints_what_its_passes_change(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ["passes", "--changes", "-o", "passes.txt", "program.py", "--changes"]
    process = subprocess.run(
        [sys.executable, "-m", "tensorflow_ipu.cli", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "4.0 ['--changes']\n"
    assert (tmp_path / "passes.txt").read_text() == (
        "== cluster_0__step on /device:IPU:0 ==\n"
        "-- pass drop_checks\n"
        " function 0(x: float32[4])\n"
        "-  CheckNumerics = CheckNumerics(x) {message=x}\n"
        "+  CheckNumerics = Identity(x)\n"
        "   Square = Square(CheckNumerics:output:0)\n"
    )
