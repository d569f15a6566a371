"""Tests of the pass that makes loops sequential."""

from __future__ import annotations

import re

import tensorflow as tf

from tensorflow_ipu.compiler.passes import sequential_loops
from tests.support.programs.compiled_programs import program_of, scalar_target


def test_every_loop_runs_one_iteration_at_a_time():
    def body(x):
        for _ in tf.range(3):
            for _ in tf.range(2):
                x += 1.0
        return x

    program = program_of(body, tf.TensorSpec([], tf.float32))
    before = str(program)
    assert before.count("= StatelessWhile(") == 2 and "parallel_iterations" not in before
    sequential_loops.run(program, scalar_target())
    expected = re.sub(r"(cond=function \d+)}", r"\1, parallel_iterations=1}", before)
    assert str(program) == expected != before
