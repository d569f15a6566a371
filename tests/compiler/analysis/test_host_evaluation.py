"""Tests of telling Programs that the host evaluates."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.analysis.host_evaluation import is_host_evaluated
from tensorflow_ipu.compiler.ir.target import Argument
from tests.support.programs.compiled_programs import default_target, program_of

SCALAR = tf.TensorSpec([], tf.float32)
VECTOR = tf.TensorSpec([3], tf.float32)


@pytest.mark.parametrize(
    ("function", "specs", "expected"),
    [
        (lambda: tf.constant([1.0, 2.0]), [], True),
        (lambda: tf.constant([1.0, 2.0]) + 1.0, [], True),
        (lambda x, y: (y, x), [VECTOR, VECTOR], True),
        (lambda x, y: x * y + 1.0, [SCALAR, SCALAR], True),
        (lambda x, y: x * y, [SCALAR, VECTOR], False),
        (lambda x: tf.exp(x), [VECTOR], False),
        (lambda: tf.random.normal([2]), [], False),
        (lambda x: tf.reduce_sum(x), [VECTOR], False),
    ],
)
def test_programs_that_the_host_evaluates_are_found(function, specs, expected):
    arguments = tuple(Argument(s.dtype, s.shape, is_variable=False) for s in specs)
    target = default_target(*arguments)
    assert is_host_evaluated(program_of(function, *specs), target) is expected


@pytest.mark.parametrize(("shape", "expected"), [([], True), ([3], False)])
def test_sums_of_scalar_variables_are_found(shape, expected):
    first, second = (tf.Variable(tf.ones(shape)) for _ in range(2))
    argument = Argument(tf.float32, first.shape, is_variable=True)
    read = program_of(lambda: first + second)
    assert is_host_evaluated(read, default_target(argument, argument)) is expected
    written = program_of(lambda: first.assign_add(second).value() + 1.0)
    assert not is_host_evaluated(written, default_target(argument, argument))
