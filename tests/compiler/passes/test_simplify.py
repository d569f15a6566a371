"""The pass that removes casts to float64 and back, on text and by results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import gradient_accumulation, loops
from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.compiler.passes import drop_ops, simplify
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import (
    default_target,
    program_of,
    scalar_target,
    unindented,
)


def _after(function: Any, *specs: tf.TensorSpec) -> str:
    program = program_of(function, *specs)
    simplify.remove_round_trips(program, scalar_target())
    drop_ops.prune(program, scalar_target())
    return str(program)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.int32])
def test_a_round_trip_goes(dtype: tf.DType) -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        back = tf.cast(tf.cast(x, tf.float64), dtype)
        return [back, back + 1]

    assert _after(function, tf.TensorSpec([2], dtype)) == unindented(f"""
        function 0(x: {dtype.name}[2])
          Cast_1 = Identity(x)
          add/y = Const() {{dtype={dtype.name}, value={tf.ones([], dtype).numpy().item()}}}
          add = AddV2(Cast_1:output:0, add/y:output:0)
          Identity = Identity(Cast_1:output:0)
          Identity_1 = Identity(add:z:0)
          return Identity:output:0
          return Identity_1:output:0
        """)


@pytest.mark.parametrize(
    ("first", "through", "last"),
    [
        (tf.float32, tf.float64, tf.float16),
        (tf.float32, tf.float16, tf.float32),
        (tf.int64, tf.float64, tf.int64),
    ],
)
def test_casts_that_are_no_round_trip_stay(
    first: tf.DType, through: tf.DType, last: tf.DType
) -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        return [tf.cast(tf.cast(x, through), last)]

    assert _after(function, tf.TensorSpec([2], first)).count("= Cast(") == 2


def test_what_else_uses_the_wide_values_stays() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        wide = tf.cast(x, tf.float64)
        return [tf.cast(wide, tf.float32), tf.cast(wide * 2, tf.float32)]

    assert _after(function, tf.TensorSpec([2])) == unindented("""
        function 0(x: float32[2])
          Cast = Cast(x) {DstT=float64}
          Cast_1 = Identity(x)
          mul/y = Const() {dtype=float64, value=2.0}
          mul = Mul(Cast:y:0, mul/y:output:0)
          Cast_2 = Cast(mul:z:0) {DstT=float32}
          Identity = Identity(Cast_1:output:0)
          Identity_1 = Identity(Cast_2:y:0)
          return Identity:output:0
          return Identity_1:output:0
        """)


# --- The pass that lets gradients go on alone, on text ---

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
    simplify.ungate_gradients(program, scalar_target())
    drop_ops.prune(program, scalar_target())
    assert ("group_deps" in str(program)) is not accumulates


def test_tuples_of_other_ops_stay() -> None:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        batches = gradient_accumulation.MiniBatches(2, ACCUMULATION_ATTRIBUTE, {}, "batches")
        return [*tf.tuple([x + 1.0, x * 2.0]), batches.index]

    program = program_of(function, SPEC)
    before = str(program)
    simplify.ungate_gradients(program, scalar_target())
    assert str(program) == before


# --- The pass that negates small factors, on text and by its results ---

GRADIENT = tf.TensorSpec([2, 2])


def _target(*shapes: list[int]) -> Target:
    """Returns a target with a tensor and variables of these shapes."""
    tensor = Argument(tf.float32, tf.TensorShape([2, 2]), is_variable=False)
    variables = [Argument(tf.float32, tf.TensorShape(shape), True) for shape in shapes]
    return default_target(tensor, *variables)


def _negated(function):
    program = program_of(function, GRADIENT)
    simplify.move_negations(program, _target([]))
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
    simplify.move_negations(program, _target(shape))
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
