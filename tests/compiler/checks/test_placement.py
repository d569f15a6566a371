"""Tests of the checks of ops on the host."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.checks import placement
from tests.support.programs.compiled_programs import default_target, program_of

VECTOR = tf.TensorSpec([3], tf.float32)


def _mark(program, *ops):
    for _, node in program.nodes():
        if node.op in ops:
            node.attr["_xla_outside_compilation"].s = b"outside"
    return program


def test_host_op_with_input_and_output_is_accepted():
    program = _mark(program_of(lambda x: tf.exp(x) + 1.0, VECTOR), "Exp")
    placement.check_outside_compilation(program, default_target())


def test_an_isolated_host_op_is_refused():
    program = _mark(program_of(lambda x: (x + 1.0, tf.raw_ops.NoOp())[0], VECTOR), "NoOp")
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have either input or output"):
        placement.check_outside_compilation(program, default_target())


def test_unknown_output_shape_is_refused():
    program = _mark(program_of(lambda x: tf.where(x > 0) + 1, VECTOR), "Where")
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be statically known"):
        placement.check_outside_compilation(program, default_target())
