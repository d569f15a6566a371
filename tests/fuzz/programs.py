"""Random programs: numbers choose the next op and its operands.

A program is data, a tuple of steps, so that plain TensorFlow and the IPU can build the same one,
and a failing one can be made smaller. What an op cannot take is left out: each program is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from hypothesis import strategies

MAX_ELEMENTS = 512


class Step(NamedTuple):
    """One op: its number, its operands among the existing values, and a free choice."""

    op: int
    first: int
    second: int
    choice: int


class Program(NamedTuple):
    """Steps; how often they are repeated in a loop; whether gradients are computed, too."""

    steps: tuple[Step, ...]
    repetitions: int
    gradients: bool


_numbers = strategies.integers(0, 10_000)
PROGRAMS = strategies.builds(
    Program,
    strategies.lists(
        strategies.builds(Step, _numbers, _numbers, _numbers, _numbers), min_size=1, max_size=12
    ).map(tuple),
    strategies.integers(1, 3),
    strategies.booleans(),
)

# An op takes two tensors and a choice; it returns None for what it has no use for.
Op = Callable[[tf.Tensor, tf.Tensor, int], "tf.Tensor | None"]


def inputs() -> tuple[np.ndarray, ...]:
    """Returns the initial values of each program."""
    random = np.random.default_rng(2)
    return (
        random.standard_normal((2, 3, 4)).astype(np.float32),
        random.standard_normal((4, 4)).astype(np.float32),
        random.standard_normal((4,)).astype(np.float32),
        random.integers(-5, 5, (2, 3)).astype(np.int32),
        np.float32(0.5),
    )


def results(program: Program, arguments: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns a program's results: its last values, and gradients of their sum."""
    arguments = list(arguments)
    with tf.GradientTape() as tape:
        tape.watch([argument for argument in arguments if argument.dtype.is_floating])
        values = _values(program, arguments)
        floats = [value for value in values if value.dtype.is_floating]
        total = tf.add_n([tf.reduce_sum(tf.cast(value, tf.float32)) for value in floats])
    outputs = [tf.identity(value) for value in values[-3:]]
    if program.gradients:
        # Loops of graphs have gradients of zeros where those of eager execution have none.
        outputs += tape.gradient(
            total,
            [argument for argument in arguments if argument.dtype.is_floating],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
    return outputs


def _values(program: Program, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the arguments and the result of each step, after all repetitions."""

    def repeat(count: tf.Tensor, carried: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        last = _steps(program.steps, [*arguments[:-1], carried])[-1]
        return count + 1, tf.reduce_mean(tf.tanh(tf.cast(last, tf.float32)))

    _, carried = tf.while_loop(
        lambda count, _: count < program.repetitions - 1,
        repeat,
        (tf.constant(0), arguments[-1]),
        maximum_iterations=program.repetitions,
    )
    return _steps(program.steps, [*arguments[:-1], carried])


def _steps(steps: Sequence[Step], arguments: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    values = list(arguments)
    ops = list(OPS.values())
    for step in steps:
        first, second = (values[number % len(values)] for number in step[1:3])
        value = ops[step.op % len(ops)](first, second, step.choice)
        if value is not None and value.shape.num_elements() <= MAX_ELEMENTS:
            values.append(value)
    return values


def _axis(x: tf.Tensor, choice: int) -> int:
    return choice % max(1, x.shape.rank)


def _unary(function: Callable[[Any], Any]) -> Op:
    return lambda x, y, choice: function(x) if x.dtype.is_floating else None


def _binary(function: Callable[[Any, Any], Any]) -> Op:
    def op(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
        if x.dtype != y.dtype or x.dtype == tf.bool or not _broadcast(x, y):
            return None
        return function(x, y)

    return op


def _broadcast(x: tf.Tensor, y: tf.Tensor) -> bool:
    try:
        return bool(tf.broadcast_static_shape(x.shape, y.shape))
    except ValueError:
        return x.shape == y.shape


def _reduction(function: Callable[..., Any]) -> Op:
    def op(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
        if x.shape.rank == 0 or x.dtype == tf.bool:
            return None
        return function(x, axis=_axis(x, choice), keepdims=bool(choice // 7 % 2))

    return op


def _divide(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x / (tf.abs(y) + 1.0) if x.dtype.is_floating else x // (y * y + 1)


def _matmul(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    suits = x.shape.rank >= 2 and y.shape.rank == 2 and x.shape[-1] == y.shape[0]
    floats = x.dtype == y.dtype and x.dtype.is_floating
    return tf.linalg.matmul(x, y) if suits and floats else None


def _select(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if x.dtype != y.dtype or x.dtype == tf.bool or x.shape != y.shape:
        return None
    return tf.where(x > tf.cast(choice % 3 - 1, x.dtype), x, y)


def _branch(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if not x.dtype.is_floating:
        return None
    positive = tf.reduce_sum(x) > float(choice % 3 - 1)
    return tf.cond(positive, lambda: x * 2.0, lambda: tf.sin(x))


def _loop(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if x.dtype != tf.float32:
        return None
    return tf.while_loop(
        lambda i, _: i < choice % 4,
        lambda i, v: (i + 1, tf.tanh(v) + 0.1),
        (tf.constant(0), x),
        maximum_iterations=4,
    )[1]


def _reshape(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor:
    elements = x.shape.num_elements()
    divisors = [d for d in range(1, elements + 1) if elements % d == 0]
    return tf.reshape(x, [divisors[choice % len(divisors)], -1])


def _slice(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if x.shape.rank == 0 or x.shape[0] < 2:
        return None
    start = choice % (x.shape[0] - 1)
    return x[start :: 1 + choice // 5 % 2]


def _gather(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if x.shape.rank == 0 or y.dtype != tf.int32:
        return None
    return tf.gather(x, tf.math.floormod(y, x.shape[0]))


def _concatenate(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if x.dtype != y.dtype or x.shape != y.shape or x.shape.rank == 0:
        return None
    return tf.concat([x, y], _axis(x, choice))


def _convolution(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if x.shape.rank != 3 or not x.dtype.is_floating:
        return None
    filters = tf.reshape(tf.linspace(-0.5, 0.5, 2 * x.shape[2] * 3), [2, x.shape[2], 3])
    return tf.nn.conv1d(x, tf.cast(filters, x.dtype), 1 + choice % 2, "SAME")


def _cast(x: tf.Tensor, y: tf.Tensor, choice: int) -> tf.Tensor | None:
    if x.dtype.is_floating:
        return tf.cast(tf.clip_by_value(x, -100.0, 100.0), tf.int32)
    return tf.cast(x, tf.float32)


def _not_scalar(function: Callable[[tf.Tensor, int], Any]) -> Op:
    return lambda x, y, choice: (
        function(x, choice) if x.shape.rank and x.dtype.is_floating else None
    )


OPS: dict[str, Op] = {
    "tanh": _unary(tf.tanh),
    "relu": _unary(tf.nn.relu),
    "sigmoid": _unary(tf.sigmoid),
    "square": _unary(tf.square),
    "sin": _unary(tf.sin),
    "exp": _unary(lambda x: tf.exp(tf.minimum(x, tf.cast(5.0, x.dtype)))),
    "sqrt": _unary(lambda x: tf.sqrt(tf.abs(x) + tf.cast(0.5, x.dtype))),
    "log": _unary(lambda x: tf.math.log(tf.abs(x) + tf.cast(1.0, x.dtype))),
    "negate": _unary(tf.negative),
    "stop gradient": _unary(tf.stop_gradient),
    "add": _binary(tf.add),
    "subtract": _binary(tf.subtract),
    "multiply": _binary(tf.multiply),
    "maximum": _binary(tf.maximum),
    "divide": _binary(
        lambda x, y: (
            x / (tf.abs(y) + 1.0) if x.dtype.is_floating else tf.math.floordiv(x, y * y + 1)
        )
    ),
    "squared difference": _binary(tf.math.squared_difference),
    "sum": _reduction(tf.reduce_sum),
    "mean": _reduction(lambda x, **k: tf.reduce_mean(x, **k) if x.dtype.is_floating else None),
    "max": _reduction(tf.reduce_max),
    "matmul": _matmul,
    "where": _select,
    "cond": _branch,
    "while": _loop,
    "reshape": _reshape,
    "transpose": lambda x, y, choice: tf.transpose(x),
    "slice": _slice,
    "gather": _gather,
    "concat": _concatenate,
    "stack": lambda x, y, choice: tf.stack([x, x], _axis(x, choice)),
    "tile": _not_scalar(lambda x, choice: tf.repeat(x, 2, _axis(x, choice))),
    "pad": _not_scalar(lambda x, choice: tf.pad(x, [[choice % 2, 1]] * x.shape.rank)),
    "reverse": _not_scalar(lambda x, choice: tf.reverse(x, [_axis(x, choice)])),
    "cumsum": _not_scalar(lambda x, choice: tf.cumsum(x, _axis(x, choice))),
    "softmax": _not_scalar(lambda x, choice: tf.nn.softmax(x)),
    "argmax": _not_scalar(lambda x, c: tf.argmax(x, _axis(x, c), output_type=tf.int32)),
    "convolution": _convolution,
    "cast": _cast,
}
