"""The pass that lets gradients go on alone, on text."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.api import gradient_accumulation
from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE
from tensorflow_ipu.compiler.passes import prune, ungate_gradients
from tests.support.programs.compiled_programs import program_of, scalar_target

SPEC = tf.TensorSpec([2, 2])


def _gradients(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    weight = tf.eye(2)
    product = x @ weight
    gate = tf.compat.v1.train.Optimizer.GATE_OP
    return tuple(tf.gradients(product, [x, weight], gate_gradients=gate == 1))


@pytest.mark.parametrize("accumulates", [True, False])
def test_gates_go_where_gradients_are_accumulated(accumulates: bool) -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        found = list(_gradients(x))
        if accumulates:
            batches = gradient_accumulation.MiniBatches(2, ACCUMULATION_ATTRIBUTE, {}, "batches")
            found.append(batches.index)
        return found

    program = program_of(function, SPEC)
    assert "group_deps" in str(program)
    ungate_gradients.run(program, scalar_target())
    prune.run(program, scalar_target())
    assert ("group_deps" in str(program)) is not accumulates


def test_tuples_of_other_ops_stay() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        batches = gradient_accumulation.MiniBatches(2, ACCUMULATION_ATTRIBUTE, {}, "batches")
        return [*tf.tuple([x + 1.0, x * 2.0]), batches.index]

    program = program_of(function, SPEC)
    before = str(program)
    ungate_gradients.run(program, scalar_target())
    assert str(program) == before
