"""Gradient accumulations that the compiler refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.api.loops import repeat, while_loop
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.checks import accumulation
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.listing.program_listing import ArgumentSpec, list_ops
from tensorflow_ipu.optimizers import GradientAccumulationOptimizerV2
from tests.support.models import training
from tests.support.models.training import tf1


def _train(count: int) -> tf.Operation:
    """Builds a step on a variable."""
    with tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
        v = training.variable("v", 2)
    opt = GradientAccumulationOptimizerV2(tf1.train.GradientDescentOptimizer(0.1), count)
    return opt.minimize(tf.reduce_sum(v**2), var_list=[v])


class _Listed:
    """An Executable with nothing but a listing, which is made when it is read."""

    def __init__(self, *listed: Any) -> None:
        self._listed = listed

    @property
    def ops(self) -> tuple[Any, ...]:
        """The ops."""
        return list_ops(*self._listed)


def _check(build: Callable[..., Any]) -> None:
    """Checks the program that a function builds."""

    def function(limit: tf.Tensor) -> tuple[list[Any], list[tf.Operation]]:
        result = build() if limits is None else build(limit)
        return ([], [result]) if isinstance(result, tf.Operation) else ([result], [])

    limits = None if build.__code__.co_argcount == 0 else 1
    with tf.Graph().as_default():
        cluster = trace.trace(function, [tf.constant(3)], "test")
        program = Program.from_library(cluster.library(), cluster.entry)
        arguments = [ArgumentSpec("limit", tf.int32, ())]
        captured = len(program.functions[program.entry].signature.input_arg) - 1
        arguments += [ArgumentSpec("v", tf.float32, (2,), is_variable=True)] * captured
        library = program.to_library()
        accumulation.check(program, _Listed(library, program.entry, arguments), cluster)


def _refused(build: Callable[..., Any]) -> str:
    with pytest.raises(tf.errors.FailedPreconditionError) as raised:
        _check(build)
    return str(raised.value)


@pytest.mark.parametrize(("iterations", "count"), [(4, 4), (8, 4), (12, 3), (5, 1), (0, 4)])
def test_multiples_of_the_count_are_accepted(iterations: int, count: int) -> None:
    _check(lambda: repeat(iterations, lambda: _train(count)))


@pytest.mark.parametrize(("iterations", "count"), [(3, 4), (10, 4), (1, 2)])
def test_iterations_no_multiple_of_count_are_refused(iterations: int, count: int) -> None:
    message = _refused(lambda: repeat(iterations, lambda: _train(count)))
    assert "evenly divide" in message
    assert f"one update for {count} mini-batches" in message
    assert f"loop with {iterations} iterations" in message


def test_accumulation_outside_of_loops_is_refused() -> None:
    assert "which is not inside a training loop" in _refused(lambda: _train(2))


def test_accumulation_beside_a_loop_is_refused() -> None:
    def build() -> tf.Operation:
        with tf.control_dependencies([repeat(4, lambda: _train(2))]):
            return _train(2)

    assert "which is not inside a training loop" in _refused(build)


def test_one_mini_batch_needs_no_loop() -> None:
    _check(lambda: _train(1))


def test_the_innermost_loop_counts() -> None:
    def nested(outer: int, inner: int, count: int) -> Any:
        return repeat(outer, lambda: repeat(inner, lambda: _train(count)))

    _check(lambda: nested(3, 4, 4))
    assert "loop with 2 iterations" in _refused(lambda: nested(4, 2, 4))


def test_accumulation_in_branch_of_loop_is_accepted() -> None:
    def body(i: tf.Tensor) -> Any:
        def step() -> tf.Tensor:
            with tf.control_dependencies([_train(4)]):
                return tf.constant(1)

        return i + tf.cond(i < 100, step, lambda: tf.constant(1))

    _check(lambda: repeat(8, body, [0]))
    assert "evenly divide" in _refused(lambda: repeat(6, body, [0]))


def test_loop_of_unknown_length_is_left_to_engine() -> None:
    _check(lambda limit: repeat(limit, lambda: _train(4)))


def test_each_of_several_accumulations_is_checked() -> None:
    def body(counts: tuple[int, int]) -> list[tf.Operation]:
        return [_train(count) for count in counts]

    _check(lambda: repeat(12, lambda: body((3, 4))))
    assert "for 8 mini-batches" in _refused(lambda: repeat(12, lambda: body((3, 8))))


def test_constant_bound_of_a_condition_loop_is_known() -> None:
    def body(i: tf.Tensor) -> Any:
        with tf.control_dependencies([_train(4)]):
            return i + 2

    _check(lambda: while_loop(lambda i: i < 15, body, [0]))
    assert "loop with 7 iterations" in _refused(lambda: while_loop(lambda i: i < 14, body, [0]))
