"""The pass that negates small factors, on text and by its results."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_strategy, loops
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.compiler.passes import negations
from tests.support import replicas
from tests.support.compiled_programs import default_target, program_of, text

GRADIENT = tf.TensorSpec([2, 2])


def _target(*shapes: list[int]) -> Target:
    """Returns a target with a tensor and variables of these shapes."""
    tensor = Argument(tf.float32, tf.TensorShape([2, 2]), is_variable=False)
    variables = [Argument(tf.float32, tf.TensorShape(shape), True) for shape in shapes]
    return default_target(tensor, *variables)


def _line(program, op):
    (line,) = (line for line in text(program).splitlines() if f"= {op}(" in line)
    return line.strip()


@pytest.mark.parametrize("swapped", [False, True], ids=["number last", "number first"])
@pytest.mark.parametrize("kind", [tf.float32, tf.float16], ids=["read", "read and cast"])
def test_the_number_is_negated(swapped, kind):
    rate = tf.Variable(0.5, dtype=kind)

    def function(gradient):
        number = tf.cast(rate, tf.float32)
        return number * -gradient if swapped else -gradient * number

    program = program_of(function, GRADIENT)
    negations.run(program, _target([]))
    assert "gradient" not in _line(program, "Neg")
    factors = _line(program, "Mul").partition("(")[2].rstrip(")").split(", ")
    assert factors[:: -1 if swapped else 1] == ["gradient", "Neg:y:0"]


def test_the_number_may_come_into_a_loop():
    rate = tf.Variable(0.5)
    program = program_of(
        lambda gradient: loops.repeat(2, lambda value: -value * rate, [gradient]), GRADIENT
    )
    negations.run(program, _target([]))
    assert "ReadVariableOp" in _line(program, "Neg")


def _of_a_vector(gradient, variable):
    return -gradient * variable


def _used_twice(gradient, variable):
    negated = -gradient
    return negated * variable, negated


def _of_a_tensor(gradient, variable):
    return -gradient * tf.reduce_sum(variable)


def _after_the_negation(gradient, variable):
    negated = -gradient
    with tf.control_dependencies([negated]):
        return negated * variable.read_value()


@pytest.mark.parametrize(
    ("function", "shape"),
    [(_of_a_vector, [2]), (_used_twice, []), (_of_a_tensor, []), (_after_the_negation, [])],
)
def test_other_products_are_unchanged(function, shape):
    variable = tf.Variable(tf.ones(shape))
    program = program_of(lambda gradient: function(gradient, variable), GRADIENT)
    before = text(program)
    negations.run(program, _target(shape))
    assert text(program) == before


def test_products_have_the_same_bits():
    replicas.configure(1)
    gradient = np.random.default_rng(0).normal(size=[50]).astype(np.float32)
    expected = -tf.constant(gradient) * tf.constant(0.1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        rate = tf.Variable(0.1)

        @tf.function(jit_compile=True)
        def program(x):
            return -x * rate

        np.testing.assert_array_equal(strategy.run(program, [gradient]), expected)
