"""Compile-time constants of a Program."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.analysis.constants import Constants, Tensor, is_host_evaluated
from tensorflow_ipu.compiler.ir.target import Argument
from tests.support.programs.compiled_programs import default_target, program_of

VECTOR = tf.TensorSpec([6], tf.float32)


def _result(function, *specs):
    """Returns the constants of a Program, and its result."""
    program = program_of(function, *specs)
    (reference,) = program.functions[program.entry].ret.values()
    return Constants(program), Tensor(program.entry, reference)


def _loop_of(function, *specs):
    constants, result = _result(function, *specs)
    loop = constants.calls.node(result)
    while loop.op == "Identity":
        loop = constants.calls.node(Tensor(result.function, loop.input[0]))
    return constants, loop


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda x: tf.constant(3) + 1, None),
        (lambda x: tf.shape(x) * 2, None),
        (lambda x: tf.shape(tf.exp(x))[0] + tf.rank(x), None),
        (lambda x: tf.zeros_like(x), None),
        (lambda x: x + 1.0, "the argument x of the program"),
        (lambda x: tf.random.uniform([]) + 1.0, "RandomUniform"),
        (lambda x: tf.function(lambda y: y + 1)(tf.size(x)), None),
        (lambda x: tf.function(lambda y: y + 1.0)(x), "the argument x of the program"),
        (lambda x: tf.function(lambda y: tf.size(y))(x), None),
        (lambda x: tf.while_loop(lambda i, n: i < 3, lambda i, n: (i + 1, n), (0, 5))[1], None),
    ],
)
def test_the_cause_of_an_unknown_result_is_found(function, cause):
    constants, result = _result(function, VECTOR)
    found = constants.cause(result)
    assert found == cause or cause in found
    assert constants.cause(result) == found  # as it is remembered


def test_what_is_found_unknown_on_way_stays_unknown():
    def function(x):
        number = tf.reduce_max(x) + 1.0
        return number * 2.0, tf.size(x) + tf.cast(number, tf.int32), tf.size(x) + 1

    program = program_of(function, VECTOR)
    constants = Constants(program)
    references = program.functions[program.entry].ret
    causes = [
        constants.cause(Tensor(program.entry, references[argument.name]))
        for argument in program.functions[program.entry].signature.output_arg
    ]
    assert causes == ["the argument x of the program"] * 2 + [None]


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda x: tf.identity(tf.constant([1, 2])), [1, 2]),
        (lambda x: tf.stack([tf.constant(1), tf.identity(tf.constant(2))]), [1, 2]),
        (lambda x: tf.constant(1) + tf.size(tf.exp(x)), None),
    ],
)
def test_the_value_of_what_is_not_computed(function, value):
    constants, result = _result(function, VECTOR)
    np.testing.assert_equal(constants.value(result), value)


def test_argument_value_equals_caller_value():
    program = program_of(lambda: tf.function(lambda y: y + 1)(tf.constant(3)))
    constants = Constants(program)
    (inner,) = (name for name in program.functions if name != program.entry)
    argument = program.functions[inner].signature.input_arg[0].name
    assert constants.value(Tensor(inner, argument)) == 3
    assert (
        constants.value(
            Tensor(program.entry, next(iter(program.functions[program.entry].ret.values())))
        )
        is None
    )


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        (lambda i, x: i < 3, True),
        (lambda i, x: i < tf.size(x), True),
        (lambda i, x: tf.reduce_sum(x) < 100.0, False),
        (lambda i, x: (i < 3) & (x[0] < 100.0), False),
    ],
)
def test_loop_iterations_are_known_for_counting_conditions(condition, known):
    def function(x):
        return tf.while_loop(condition, lambda i, y: (i + 1, y * 2.0), (0, x))[1]

    constants, loop = _loop_of(function, VECTOR)
    assert constants.ends_after_known_iterations(loop) == known


# --- Tests of telling Programs that the host evaluates ---

SCALAR = tf.TensorSpec([], tf.float32)
VECTOR_HOST_EVALUATION = tf.TensorSpec([3], tf.float32)


@pytest.mark.parametrize(
    ("function", "specs", "expected"),
    [
        (lambda: tf.constant([1.0, 2.0]), [], True),
        (lambda: tf.constant([1.0, 2.0]) + 1.0, [], True),
        (lambda x, y: (y, x), [VECTOR_HOST_EVALUATION, VECTOR_HOST_EVALUATION], True),
        (lambda x, y: x * y + 1.0, [SCALAR, SCALAR], True),
        (lambda x, y: x * y, [SCALAR, VECTOR_HOST_EVALUATION], False),
        (lambda x: tf.sin(tf.nn.sigmoid(x)), [SCALAR], True),
        (lambda x: tf.exp(x), [VECTOR_HOST_EVALUATION], False),
        (lambda: tf.random.normal([2]), [], False),
        (lambda x: tf.reduce_sum(x), [VECTOR_HOST_EVALUATION], False),
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
