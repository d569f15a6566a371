"""Gradients of random PopXL programs with independent collectives equal TensorFlow's."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np
import popxl
import pytest
import tensorflow as tf
from hypothesis import strategies
from popxl import ops
from popxl.ops import collectives
from popxl.transforms import autodiff

from tests.fuzz import support

SHAPE = (3, 3)
TOLERANCE = 1e-4


class Step(NamedTuple):
    """One op: its kind, its operands among the values so far, and a free choice."""

    op: int
    first: int
    second: int
    choice: int


class Program(NamedTuple):
    """Steps of a called function, and of the function that is differentiated."""

    functions: tuple[list[Step], list[Step]]
    replicas: int


_numbers = strategies.integers(0, 1000)
_steps = strategies.lists(
    strategies.builds(Step, _numbers, _numbers, _numbers, _numbers), min_size=2, max_size=7
)
PROGRAMS = strategies.builds(
    Program, strategies.tuples(_steps, _steps), strategies.sampled_from([2, 4])
)


class Machine(abc.ABC):
    """Runs a program.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    @abc.abstractmethod
    def unary(self, kind: str, a: Any) -> Any:
        """Returns a function of TensorFlow and PopXL of one value."""

    @abc.abstractmethod
    def reduced(self, a: Any, group: int, kept: int) -> Any:
        """Returns means over groups of replicas, in the value, the gradient or both.

        Args:
            a: the value.
            group: number of replicas of a group.
            kept: 1: the value is not reduced; 2: the gradient is not.
        """

    @abc.abstractmethod
    def call(self, inputs: list[Any]) -> list[Any]:
        """Calls the first function."""

    def run(self, function: int, inputs: list[Any]) -> list[Any]:
        """Runs a function; each of its two results depends on both inputs."""
        values = list(inputs)
        for step in self.program.functions[function]:
            operands = (step.first, step.second, step.choice)
            a, b, c = (values[operand % len(values)] for operand in operands)
            values += self._step(function, step, a, b, c)
        return [value + (inputs[0] + inputs[1]) * 0.5 for value in values[-2:]]

    def _step(self, function: int, step: Step, a: Any, b: Any, c: Any) -> list[Any]:
        kind = step.op % (6 if function else 5)
        group = self.program.replicas // (1 + step.choice % 2)
        kept = step.choice % 3
        if kind == 0:
            return [(a + b + c) * 0.3]
        if kind == 1:
            return [self.unary("tanh", a @ b)]
        if kind == 2:
            return [self.unary("softmax", a)]
        if kind == 3:
            return [self.reduced(a, group, kept)]
        if kind == 4:
            difference = self.reduced(a @ c, group, kept) - self.reduced(b @ c, group, kept) * a
            return [self.unary("tanh", difference)]
        return self.call([a, b])


class TensorFlow(Machine):
    """All replicas at once: values are [replicas, ...]."""

    def unary(self, kind: str, a: Any) -> Any:
        return getattr(tf.nn, kind)(a)

    def reduced(self, a: Any, group: int, kept: int) -> Any:
        def means(x: tf.Tensor) -> tf.Tensor:
            groups = tf.reshape(x, [-1, group, *SHAPE])
            mean = tf.reduce_mean(groups, 1, keepdims=True)
            return tf.reshape(tf.broadcast_to(mean, groups.shape), x.shape)

        @tf.custom_gradient
        def reduce(x: tf.Tensor) -> Any:
            value = x + 0 if kept == 1 else means(x)
            return value, lambda dy: dy if kept == 2 else means(dy)

        return reduce(a)

    def call(self, inputs: list[Any]) -> list[Any]:
        return self.run(0, inputs)

    def gradients(self, inputs: list[np.ndarray], slopes: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the gradients of the inputs."""
        given = [tf.constant(array, tf.float64) for array in inputs]
        with tf.GradientTape() as tape:
            tape.watch(given)
            results = self.run(1, given)
        wide = [tf.constant(array, tf.float64) for array in slopes]
        return [gradient.numpy() for gradient in tape.gradient(results, given, wide)]


class Popxl(Machine):
    """Graphs, and the gradient graph that PopXL makes of them.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._ir = popxl.Ir(replication=program.replicas)
        self._called: popxl.Graph | None = None

    def unary(self, kind: str, a: Any) -> Any:
        return getattr(ops, kind)(a) if kind == "tanh" else ops.softmax(a, -1)

    def reduced(self, a: Any, group: int, kept: int) -> Any:
        grouping = self._ir.replica_grouping(group_size=group)
        return collectives.replicated_all_reduce_with_grad(
            a, "mean", grouping, kept == 1, kept == 2
        )

    def call(self, inputs: list[Any]) -> list[Any]:
        if self._called is None:
            self._called = self._ir.create_graph(lambda a, b: self.run(0, [a, b]), *inputs)
        return list(ops.call(self._called, *inputs))

    def gradients(self, inputs: list[np.ndarray], slopes: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the gradients of the inputs."""
        own = self._ir.replica_grouping(group_size=1)
        with self._ir.main_graph:
            a, b, *of_results = (
                popxl.variable(array, replica_grouping=own) for array in (*inputs, *slopes)
            )
            graph = self._ir.create_graph(lambda a, b: self.run(1, [a, b]), a, b)
            info = autodiff(graph)
            call = ops.call_with_info(graph, a, b)
            found = ops.call(info.graph, *of_results, inputs_dict=info.inputs_dict(call))
            streams = [popxl.d2h_stream(SHAPE, popxl.float32) for _ in found]
            for stream, gradient in zip(streams, found):
                ops.host_store(stream, gradient)
        with popxl.Session(self._ir, "ipu_hw") as session:
            results = session.run()
        return [results[stream] for stream in streams]


def _check(program: Program) -> None:
    random = np.random.default_rng(0)
    a, b, *slopes = random.standard_normal((4, program.replicas, *SHAPE)).astype(np.float32)
    expected = TensorFlow(program).gradients([a, b], slopes)
    for found, wanted in zip(Popxl(program).gradients([a, b], slopes), expected):
        # Sums of large terms are small, so rounding is a share of the largest gradient.
        np.testing.assert_allclose(found, wanted, TOLERANCE, TOLERANCE * np.abs(wanted).max())


def test_gradients_of_programs_with_collectives(request: pytest.FixtureRequest) -> None:
    support.run(request, "PopXL gradients", PROGRAMS, _check)
