"""Tests of the pass that makes loops sequential."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.passes import sequential_loops
from tests.support.compiled_programs import program_of, scalar_target


def test_every_loop_runs_one_iteration_at_a_time():
    def body(x):
        for _ in tf.range(3):
            for _ in tf.range(2):
                x += 1.0
        return x

    program = program_of(body, tf.TensorSpec([], tf.float32))
    loops = [node for _, node in program.nodes() if "While" in node.op]
    assert [node.attr["parallel_iterations"].i for node in loops] == [10, 10]
    sequential_loops.run(program, scalar_target())
    assert [node.attr["parallel_iterations"].i for node in loops] == [1, 1]
