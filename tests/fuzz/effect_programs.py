"""Random programs with effects and collectives in calls, loops, conditionals; their results.

A program is data, which three machines run: NumPy for all replicas at once, TensorFlow and PopXL.
The first also knows which values are equal on all replicas by the flow of data.
"""

from __future__ import annotations

import abc
import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import popxl
import tensorflow as tf
from hypothesis import strategies
from popxl import ops
from popxl.ops import var_updates

from tensorflow_ipu.api import loops
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops, functional_ops, replication_ops

SHAPE = (3, 3)
Site = tuple[int, ...]
Pair = list[Any]


class Step(NamedTuple):
    """One op: its kind, its operands among the values so far, and a free choice."""

    op: int
    first: int
    second: int
    choice: int


class Program(NamedTuple):
    """Steps of functions; the last is the program, and each may run those before it."""

    functions: tuple[tuple[Step, ...], ...]
    replicas: int


_numbers = strategies.integers(0, 1000)
_steps = strategies.lists(
    strategies.builds(Step, _numbers, _numbers, _numbers, _numbers), min_size=2, max_size=6
).map(tuple)
PROGRAMS = strategies.builds(
    Program, strategies.tuples(_steps, _steps, _steps), strategies.sampled_from([1, 2, 4])
)


def start(replicas: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a value that all replicas have, and each replica's own."""
    random = np.random.default_rng(0)
    values = random.standard_normal((1 + replicas, *SHAPE)).astype(np.float32)
    return values[0], values[1:]


class Machine(abc.ABC):
    """Runs a program.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.site: Site = ()

    @abc.abstractmethod
    def added(self, a: Any, b: Any, c: Any) -> Any:
        """Returns the mean of three values, as a sum and a division."""

    @abc.abstractmethod
    def product(self, a: Any, b: Any) -> Any:
        """Returns the hyperbolic tangent of a product of matrices."""

    @abc.abstractmethod
    def reduced(self, a: Any, group: int) -> Any:
        """Returns the mean of the replicas of each group."""

    @abc.abstractmethod
    def random(self, a: Any) -> Any:
        """Returns a value, after drawing random numbers."""

    @abc.abstractmethod
    def store(self, a: Any) -> None:
        """Sends a value to the host."""

    @abc.abstractmethod
    def update(self, a: Any) -> None:
        """Adds a value to the variable."""

    @abc.abstractmethod
    def read(self) -> Any:
        """Returns the variable."""

    @abc.abstractmethod
    def call(self, function: int, inputs: Pair, choice: int) -> Pair:
        """Calls a function."""

    @abc.abstractmethod
    def repeat(self, times: int, function: int, inputs: Pair) -> Pair:
        """Calls a function with its results, a number of times."""

    @abc.abstractmethod
    def conditional(self, first: bool, functions: tuple[int, int], inputs: Pair) -> Pair:
        """Calls one of two functions, by a condition that is known at run time only."""

    def run(self, function: int, inputs: Pair) -> Pair:
        """Runs the steps of a function; returns two results."""
        values = list(inputs)
        outer = self.site
        for number, step in enumerate(self.program.functions[function]):
            self.site = (*outer, function, number)
            a, b = (values[operand % len(values)] for operand in (step.first, step.second))
            values += self._step(function, step, a, b, values[step.choice % len(values)])
        self.site = outer
        return values[-2:]

    def _step(self, function: int, step: Step, a: Any, b: Any, c: Any) -> Pair:
        kind = step.op % (10 if function else 7)
        if kind >= 7:
            inner = step.first % function
            if kind == 7:
                results = self.call(inner, [a, b], step.choice)
            elif kind == 8:
                results = self.repeat(1 + step.choice % 2, inner, [a, b])
            else:
                pair = (inner, step.second % function)
                results = self.conditional(step.choice % 2 == 0, pair, [a, b])
            return results if step.choice % 3 else []
        if kind <= 1:
            return [self.added(a, b, c)]
        if kind == 2:
            return [self.product(a, b)]
        if kind == 3:
            replicas = self.program.replicas
            return [self.reduced(a, 2 if replicas == 4 and step.choice % 4 == 0 else replicas)]
        if kind == 4:
            return [self.random(a)]
        if kind == 5:
            self.store(a)
            return []
        self.update(a)
        return [self.read()] if step.choice % 2 else []


class Known(NamedTuple):
    """The values of all replicas, [replicas, ...], and whether data flow makes them equal."""

    rows: np.ndarray
    equal: bool


class Reference(Machine):
    """NumPy.

    Args:
        program: the program.
        of_popxl: whether it is one of PopXL. Stores of one op are then not told apart by the calls
            that lead to it, and conditionals cannot take variables by reference.
    """

    def __init__(self, program: Program, of_popxl: bool) -> None:
        super().__init__(program)
        self._of_popxl = of_popxl
        self._updates = True
        same, own = start(program.replicas)
        self.stored: dict[Site, list[Known]] = collections.defaultdict(list)
        self.variable = Known(np.zeros_like(own, np.float64), True)
        one = Known(np.broadcast_to(same, own.shape).astype(np.float64), True)
        self.run(2, [one, Known(own.astype(np.float64), program.replicas == 1)])

    def added(self, a: Any, b: Any, c: Any) -> Any:
        return Known((a.rows + b.rows + c.rows) / 3, a.equal and b.equal and c.equal)

    def product(self, a: Any, b: Any) -> Any:
        return Known(np.tanh(a.rows @ b.rows), a.equal and b.equal)

    def reduced(self, a: Any, group: int) -> Any:
        groups = a.rows.reshape(-1, group, *SHAPE)
        rows = np.broadcast_to(groups.mean(1, keepdims=True), groups.shape).reshape(a.rows.shape)
        return Known(rows, a.equal or group == self.program.replicas)

    def random(self, a: Any) -> Any:
        return a

    def store(self, a: Any) -> None:
        self.stored[self.site[-2:] if self._of_popxl else self.site].append(a)

    def update(self, a: Any) -> None:
        if self._updates:
            equal = self.variable.equal and a.equal
            self.variable = Known(self.variable.rows + a.rows, equal)

    def read(self) -> Any:
        return self.variable

    def call(self, function: int, inputs: Pair, choice: int) -> Pair:
        return self.run(function, inputs)

    def repeat(self, times: int, function: int, inputs: Pair) -> Pair:
        for _ in range(times):
            inputs = self.run(function, inputs)
        return inputs

    def conditional(self, first: bool, functions: tuple[int, int], inputs: Pair) -> Pair:
        branch = 0 if first else 1
        outer, updates = self.site, self._updates
        self.site, self._updates = (*outer, branch), updates and not self._of_popxl
        results = self.run(functions[branch], inputs)
        self.site, self._updates = outer, updates
        return results


class TensorFlow(Machine):
    """Ops of TensorFlow, in the program that is being traced.

    Args:
        program: the program.
        variable: has zeros.
    """

    def __init__(self, program: Program, variable: tf.Variable) -> None:
        super().__init__(program)
        self.queues: dict[Site, IPUOutfeedQueue] = {}
        self._variable = variable

    def build(self, same: tf.Tensor, own: tf.Tensor) -> None:
        """Puts the program into the function that is traced."""
        self._one = tf.cast(tf.reduce_sum(same) < 1e6, tf.int32)
        self.run(2, [same, own[replication_ops.replication_index()]])

    def added(self, a: Any, b: Any, c: Any) -> Any:
        return (a + b + c) / 3

    def product(self, a: Any, b: Any) -> Any:
        return tf.tanh(a @ b)

    def reduced(self, a: Any, group: int) -> Any:
        return cross_replica_ops.cross_replica_mean(a, group)

    def random(self, a: Any) -> Any:
        return a + tf.round(tf.random.uniform(SHAPE) * 0.25)

    def store(self, a: Any) -> None:
        assert self.site not in self.queues
        self.queues[self.site] = IPUOutfeedQueue()
        self.queues[self.site].enqueue(a)

    def update(self, a: Any) -> None:
        self._variable.assign_add(a)

    def read(self) -> Any:
        return self._variable.read_value()

    def call(self, function: int, inputs: Pair, choice: int) -> Pair:
        around = (tf.function, functional_ops.outlined_function)[choice // 2 % 2]
        return list(around(lambda a, b: self.run(function, [a, b]))(*inputs))

    def repeat(self, times: int, function: int, inputs: Pair) -> Pair:
        return list(loops.repeat(times, lambda a, b: self.run(function, [a, b]), inputs))

    def conditional(self, first: bool, functions: tuple[int, int], inputs: Pair) -> Pair:
        def branch(number: int) -> Callable[[], Pair]:
            def run() -> Pair:
                outer, self.site = self.site, (*self.site, number)
                results = self.run(functions[number], inputs)
                self.site = outer
                return [tf.identity(result) for result in results]

            return run

        return list(tf.cond(self._one == int(first), branch(0), branch(1)))


class Popxl(Machine):
    """Ops of PopXL. Functions are graphs, which are made once.

    Args:
        program: the program.
        stores: how many tensors it stores from one place at most.
    """

    def __init__(self, program: Program, stores: int) -> None:
        super().__init__(program)
        self.streams: dict[Site, popxl.DeviceToHostStream] = {}
        self._graphs: dict[tuple[int, bool], popxl.Graph] = {}
        self._by_ref = True
        self.ir = popxl.Ir(replication=program.replicas)
        self.ir.num_host_transfers = stores
        same, own = start(program.replicas)
        single = program.replicas == 1
        with self.ir.main_graph, popxl.in_sequence():
            grouping = None if single else self.ir.replica_grouping(group_size=1)
            inputs = [
                popxl.variable(same),
                popxl.variable(own[0] if single else own, replica_grouping=grouping),
            ]
            self._flags = [popxl.variable(value, popxl.bool) for value in (True, False)]
            self._variable = popxl.variable(np.zeros(SHAPE, np.float32))
            self.run(2, inputs)

    def added(self, a: Any, b: Any, c: Any) -> Any:
        return (a + b + c) / 3

    def product(self, a: Any, b: Any) -> Any:
        return ops.tanh(a @ b)

    def reduced(self, a: Any, group: int) -> Any:
        grouping = self.ir.replica_grouping(group_size=group)
        return ops.collectives.replicated_all_reduce(a, "mean", grouping)

    def random(self, a: Any) -> Any:
        seed = popxl.constant([1, 2], popxl.uint32)
        return a + ops.random_uniform(seed, SHAPE) * 0

    def store(self, a: Any) -> None:
        site = self.site[-2:]
        if site not in self.streams:
            self.streams[site] = popxl.d2h_stream(SHAPE, popxl.float32)
        ops.host_store(self.streams[site], a)

    def update(self, a: Any) -> None:
        if self._by_ref:
            var_updates.accumulate_(self._variable, a)

    def read(self) -> Any:
        return self._variable + 0

    def call(self, function: int, inputs: Pair, choice: int) -> Pair:
        return list(ops.call(self._graph(function), *inputs, *self._state()))

    def repeat(self, times: int, function: int, inputs: Pair) -> Pair:
        return list(ops.repeat(self._graph(function), times, *inputs, *self._state()))

    def conditional(self, first: bool, functions: tuple[int, int], inputs: Pair) -> Pair:
        flag = self._flags[0 if first else 1]
        given = [*inputs, *self._state()]
        outside, self._by_ref = self._by_ref, False
        graphs = [self._graph(function) for function in functions]
        self._by_ref = outside
        return list(ops.conditional(flag, *graphs, then_inputs=given, else_inputs=given))

    def _state(self) -> list[Any]:
        return [*self._flags, self._variable]

    def _graph(self, function: int) -> popxl.Graph:
        key = function, self._by_ref
        if key in self._graphs:
            return self._graphs[key]
        outside = self._flags, self._variable
        graph = self._graphs[key] = self.ir.create_empty_graph(f"function_{function}")
        with graph, popxl.in_sequence():
            inputs = [popxl.graph_input(SHAPE, popxl.float32) for _ in range(2)]
            self._flags = [popxl.graph_input((), popxl.bool) for _ in range(2)]
            self._variable = popxl.graph_input(SHAPE, popxl.float32, by_ref=self._by_ref)
            for result in self.run(function, inputs):
                popxl.graph_output(result + 0)
        self._flags, self._variable = outside
        return graph
