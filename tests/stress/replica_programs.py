"""Random programs whose replicas have equal values and values that differ.

As a script of several instances, runs the programs of some seeds, and reports their results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import loops, utils
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import all_to_all_op, cross_replica_ops, reduce_scatter_op, replication_ops
from tests.support.processes import instances
from tests.support.programs import replicas as replica_helpers

ROWS, COLUMNS = 8, 4
ITERATIONS = 3
STATEMENTS = 14

_Values = list[tf.Tensor]


class _Body:
    """The statements of a loop's body, drawn at random: the same for the same generator."""

    def __init__(
        self, random: np.random.Generator, variables: Sequence[tf.Variable], replicas: int
    ) -> None:
        self._random = random
        self._variables = variables
        self._replicas = replicas
        self._index = tf.cast(replication_ops.replication_index(), tf.float32)

    def run(self, values: _Values) -> tf.Tensor:
        """Runs the statements, and returns the last value, which depends on most others.

        Args:
            values: what the first statements can use.
        """
        statements: Sequence[Callable[[_Values], tf.Tensor | None]] = (
            self._arithmetic,
            self._arithmetic,
            self._product,
            self._constant,
            self._draw,
            self._of_replica,
            self._sum,
            self._sum,
            self._sum_of_group,
            self._gathered,
            self._scattered,
            self._read,
            self._read,
            self._update,
            self._update,
            self._momentum,
            self._update_rows,
            self._choice,
            self._inner_loop,
        )
        for _ in range(STATEMENTS):
            statement = statements[self._random.integers(len(statements))]
            result = statement(values)
            if result is not None:
                values.append(result)
        return tf.add_n(values[-4:])

    def _pick(self, values: _Values) -> tf.Tensor:
        return values[self._random.integers(len(values))]

    def _variable(self) -> tf.Variable:
        return self._variables[self._random.integers(len(self._variables))]

    def _arithmetic(self, values: _Values) -> tf.Tensor:
        operation = (tf.add, tf.subtract, tf.multiply, tf.maximum)[self._random.integers(4)]
        return tf.tanh(operation(self._pick(values), self._pick(values)))

    def _product(self, values: _Values) -> tf.Tensor:
        square = tf.matmul(self._pick(values), self._pick(values), transpose_a=True)
        return tf.tanh(tf.matmul(self._pick(values), square))

    def _constant(self, _: _Values) -> tf.Tensor:
        return tf.constant(self._random.normal(size=(ROWS, COLUMNS)).astype(np.float32))

    def _draw(self, _: _Values) -> tf.Tensor:
        return tf.random.uniform((ROWS, COLUMNS))

    def _of_replica(self, values: _Values) -> tf.Tensor:
        return self._pick(values) + self._index

    def _sum(self, values: _Values) -> tf.Tensor:
        return cross_replica_ops.cross_replica_sum(self._pick(values)) / self._replicas

    def _sum_of_group(self, values: _Values) -> tf.Tensor:
        size = 2 if self._replicas % 2 == 0 else 1
        return cross_replica_ops.cross_replica_sum(self._pick(values), size) / size

    def _gathered(self, values: _Values) -> tf.Tensor:
        gathered = all_to_all_op.all_gather(self._pick(values), self._replicas)
        return tf.reduce_mean(gathered, axis=0)

    def _scattered(self, values: _Values) -> tf.Tensor:
        vector = tf.reshape(self._pick(values), [-1])
        part = reduce_scatter_op.reduce_scatter(vector, self._replicas)
        return tf.tanh(self._pick(values) * tf.reduce_sum(part))

    def _read(self, values: _Values) -> tf.Tensor:
        rows = tf.cast(tf.abs(self._pick(values)[:, 0]) * ROWS, tf.int32) % ROWS
        variable = self._variable()
        if self._random.random() < 0.3:
            return tf.gather(variable, rows)
        return variable.read_value()

    def _update(self, values: _Values) -> None:
        variable, value = self._variable(), self._pick(values)
        if self._random.random() < 0.5:
            variable.assign_sub(0.1 * value)
        else:
            variable.assign(tf.tanh(value))

    def _momentum(self, values: _Values) -> None:
        variable, slot = self._variables[:2]
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle, accum=slot.handle, lr=0.1, grad=self._pick(values), momentum=0.9
        )

    def _update_rows(self, values: _Values) -> None:
        value = self._pick(values)
        rows = tf.cast(tf.abs(value[:, 0]) * ROWS, tf.int32) % ROWS
        self._variable().scatter_sub(tf.IndexedSlices(0.1 * value, rows))

    def _choice(self, values: _Values) -> tf.Tensor:
        value, other, variable = self._pick(values), self._pick(values), self._variable()
        predicate = tf.reduce_sum(self._pick(values)) > 0

        def write() -> tf.Tensor:
            variable.assign_add(0.1 * value)
            return other + 1.0

        return tf.cond(predicate, write, lambda: other * variable)

    def _inner_loop(self, values: _Values) -> tf.Tensor:
        variable, other, count = self._variable(), self._pick(values), self._random.integers(1, 4)
        differs = self._random.random() < 0.3
        limit = int(count) + (tf.cast(self._index, tf.int32) if differs else 0)

        def body(i: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            variable.assign_sub(0.01 * value)
            return i + 1, tf.tanh(value * other + variable)

        return tf.while_loop(lambda i, _: i < limit, body, [0, self._pick(values)])[1]


def run(seed: int, replicas: int) -> list[np.ndarray]:
    """Runs the random program of a seed, twice.

    Args:
        seed: chooses the program.
        replicas: how many.

    Returns:
        The values of all replicas in each iteration, and the variables at the end.
    """
    replica_helpers.configure(replicas)
    return run_some(seed, replicas, range(replicas))


def run_some(seed: int, replicas: int, own: range) -> list[np.ndarray]:
    """Runs the random program of a seed on a device that has been configured.

    Args:
        seed: chooses the program.
        replicas: how many in all processes.
        own: those of this process.

    Returns:
        As `run`, of the replicas of this process.
    """
    utils.reset_ipu_seed(seed + 1)
    random = np.random.default_rng(seed)
    data = random.normal(size=(64, ROWS, COLUMNS)).astype(np.float32)
    data = data[[i for i in range(len(data)) if i % replicas in own]]
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data).repeat())
        outfeed = IPUOutfeedQueue()
        variables = [
            tf.Variable(random.normal(size=(ROWS, COLUMNS)).astype(np.float32)) for _ in range(4)
        ]
        start = random.bit_generator.state

        @tf.function(jit_compile=True)
        def program(argument: tf.Tensor) -> None:
            random.bit_generator.state = start

            def body(carried: tf.Tensor, fed: tf.Tensor) -> tf.Tensor:
                result = _Body(random, variables, replicas).run([carried, fed, argument])
                outfeed.enqueue(result)
                return tf.tanh(result if seed % 2 else cross_replica_ops.cross_replica_sum(result))

            loops.repeat(ITERATIONS, body, [argument], infeed)

        infeed.initializer  # noqa: B018 - runs it
        results = []
        for launch in range(2):
            strategy.run(program, [tf.fill((ROWS, COLUMNS), 0.1 * launch)])
            results.append(np.asarray(outfeed.dequeue()))
        return [*results, *(variable.numpy() for variable in variables)]


def main(first: str, last: str) -> None:
    """Runs the programs of some seeds in an instance.

    Args:
        first: the first seed.
        last: the seed after the last one.
    """
    me = instances.join()
    instances.configure(me)
    count = me.total_replicas // me.count
    own = range(me.index * count, (me.index + 1) * count)
    for seed in range(int(first), int(last)):
        results = run_some(seed, me.total_replicas, own)
        instances.report(**{f"result {i}": result for i, result in enumerate(results)})


if __name__ == "__main__":
    main(*sys.argv[1:])
