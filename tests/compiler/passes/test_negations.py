"""The pass that negates small factors, on text and by its results."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.compiler.passes import negations
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import default_target, program_of, unindented

GRADIENT = tf.TensorSpec([2, 2])


def _target(*shapes: list[int]) -> Target:
    """Returns a target with a tensor and variables of these shapes."""
    tensor = Argument(tf.float32, tf.TensorShape([2, 2]), is_variable=False)
    variables = [Argument(tf.float32, tf.TensorShape(shape), True) for shape in shapes]
    return default_target(tensor, *variables)


def _negated(function):
    program = program_of(function, GRADIENT)
    negations.run(program, _target([]))
    return str(program)


def test_the_number_is_negated():
    rate = tf.Variable(0.5)
    assert _negated(lambda gradient: -gradient * rate) == unindented("""
        function 0(gradient: float32[2, 2], mul_readvariableop_resource: resource)
          Neg = Neg(mul/ReadVariableOp:value:0)
          mul/ReadVariableOp = ReadVariableOp(mul_readvariableop_resource) {dtype=float32}
          mul = Mul(gradient, Neg:y:0)
          Identity = Identity(mul:z:0, ^NoOp)
          NoOp = NoOp(^mul/ReadVariableOp)
          return Identity:output:0
          run mul/ReadVariableOp
        """)


def test_number_cast_and_comes_first_is_negated():
    rate = tf.Variable(0.5, dtype=tf.float16)
    assert _negated(lambda gradient: tf.cast(rate, tf.float32) * -gradient) == unindented("""
        function 0(gradient: float32[2, 2], cast_readvariableop_resource: resource)
          Cast/ReadVariableOp = ReadVariableOp(cast_readvariableop_resource) {dtype=float16}
          Cast = Cast(Cast/ReadVariableOp:value:0) {DstT=float32}
          Neg = Neg(Cast:y:0)
          mul = Mul(Neg:y:0, gradient)
          Identity = Identity(mul:z:0, ^NoOp)
          NoOp = NoOp(^Cast/ReadVariableOp)
          return Identity:output:0
          run Cast/ReadVariableOp
        """)


def test_the_number_may_come_into_a_loop():
    rate = tf.Variable(0.5)
    found = _negated(lambda gradient: loops.repeat(2, lambda value: -value * rate, [gradient]))
    (line,) = (line for line in found.splitlines() if "= Neg(" in line)
    assert "ReadVariableOp" in line


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
    before = str(program)
    negations.run(program, _target(shape))
    assert str(program) == before


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
