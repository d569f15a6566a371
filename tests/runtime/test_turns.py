"""Tests of replicas that take turns: the same bits as all at once, and in which order they run."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.api.accumulators import Accumulator
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ops import replication_ops
from tensorflow_ipu.ops.all_to_all_op import all_gather
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_mean, cross_replica_sum
from tensorflow_ipu.ops.internal_ops import print_tensor
from tensorflow_ipu.ops.reduce_scatter_op import reduce_scatter
from tests.support.programs import replicas

COUNT = 8
AT_ONCE = "TENSORFLOW_IPU_REPLICAS_AT_ONCE"
TYPES = [tf.float16, tf.float32, tf.int8]


def sum_in_order(rows: np.ndarray, dtype: tf.DType) -> np.ndarray:
    """Returns the sum of rows, one after the other, of 16-bit floats in float32."""
    partial = np.float32 if dtype.is_floating else dtype.as_numpy_dtype
    total = rows[0].astype(partial)
    for row in rows[1:]:
        total = total + row.astype(partial)
    return total.astype(dtype.as_numpy_dtype)


@pytest.mark.parametrize("at_once", [1, 2, 8])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_sums_are_taken_in_order(dtype, at_once, monkeypatch):
    monkeypatch.setenv(AT_ONCE, str(at_once))
    parts = replicas.rows(COUNT, [700], dtype)

    def program() -> dict[str, tf.Tensor]:
        own = replicas.own_row(parts)
        total = cross_replica_sum(own)
        # Of a result whose buffer the first sum still has, and of groups.
        return {"all": total, "twice": cross_replica_sum(total), "pairs": cross_replica_sum(own, 2)}

    results = replicas.run(COUNT, program)
    total = sum_in_order(parts, dtype)
    pairs = [sum_in_order(parts[pair], dtype) for pair in replicas.groups(COUNT, 2)]
    for replica in range(COUNT):
        np.testing.assert_array_equal(results["all"][replica], total)
        np.testing.assert_array_equal(
            results["twice"][replica], sum_in_order(np.stack([total] * COUNT), dtype)
        )
        np.testing.assert_array_equal(results["pairs"][replica], pairs[replica // 2])


def training_steps() -> dict[str, tf.Tensor]:
    """Trains weights on a row of each replica, with a mean in the middle of the forward pass."""
    data = replicas.rows(COUNT, [4, 30], seed=1)

    def step(weights: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            values = tf.tanh(replicas.own_row(data) @ weights)
            centered = values - cross_replica_mean(tf.reduce_mean(values, 0))
            loss = tf.reduce_sum(centered**2)
        gradient = tape.gradient(loss, weights)
        return weights - 0.1 * cross_replica_sum(gradient), loss

    start = tf.constant(replicas.rows(1, [30, 5], seed=2)[0])
    weights, loss = loops.repeat(5, step, [start, tf.constant(0.0)])
    return {"weights": weights, "loss": loss}


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_turns_change_no_bits(at_once, monkeypatch):
    monkeypatch.setenv(AT_ONCE, str(COUNT))
    expected = replicas.run(COUNT, training_steps)
    monkeypatch.setenv(AT_ONCE, str(at_once))
    received = replicas.run(COUNT, training_steps)
    for name in expected:
        np.testing.assert_array_equal(received[name], expected[name])
    np.testing.assert_array_equal(expected["weights"], expected["weights"][:1].repeat(COUNT, 0))


@pytest.mark.parametrize("count", [2, 4])
def test_replica_gives_all_parts_before_next_begins(count, capfd, monkeypatch):
    """One at a time. The last has its turn until its end, as it waits for nobody."""
    monkeypatch.setenv(AT_ONCE, "1")

    def mark(name: str, value: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([value]):
            printed = print_tensor(replication_ops.replication_index(), name)
        with tf.control_dependencies([printed]):
            return tf.identity(value)

    def program() -> tf.Tensor:
        x = tf.cast(replication_ops.replication_index(), tf.float32)
        given = [cross_replica_sum(mark("give", x)), cross_replica_sum(mark("give", x + 1))]
        return mark("take", tf.add_n([*given, x]))

    total = sum(range(count)) * 2 + count
    np.testing.assert_array_equal(replicas.run(count, program), total + np.arange(count))
    printed = re.findall(r"^(give|take)\S*: (\d)$", capfd.readouterr().err, re.MULTILINE)
    expected = [("give", str(r)) for r in range(count) for _ in range(2)]
    assert printed == expected + [("take", str(r)) for r in [count - 1, *range(count - 1)]]


@pytest.mark.parametrize("value", ["0", "-1", "two", ""])
def test_wrong_number_at_once_is_an_error(value, monkeypatch):
    monkeypatch.setenv(AT_ONCE, value)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f'{AT_ONCE} is "{value}". Expected'):
        replicas.run(2, lambda: cross_replica_sum(1.0))


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("failing", [0, 2, 3])
def test_error_of_a_replica_ends_others(failing, at_once, monkeypatch):
    """Some have given their parts by then, others have not begun."""
    monkeypatch.setenv(AT_ONCE, str(at_once))

    def program() -> tf.Tensor:
        index = replication_ops.replication_index()
        first = cross_replica_sum(tf.cast(index, tf.float32))
        row = tf.where(tf.equal(index, failing), 100, 0)
        return cross_replica_sum(first + tf.gather(tf.constant([1.0, 2.0]), row))

    with pytest.raises(tf.errors.InvalidArgumentError, match="100 is not in"):
        replicas.run(4, program)
    np.testing.assert_array_equal(replicas.run(4, lambda: cross_replica_sum(1.0)), [4] * 4)


@pytest.mark.parametrize("at_once", [1, 2])
def test_collectives_equal_those_without_turns(at_once, monkeypatch):
    parts = replicas.rows(COUNT, [24], seed=3)

    def program() -> list[tf.Tensor]:
        own = replicas.own_row(parts)
        scattered = [
            reduce_scatter(own, size, op)
            for size in (COUNT, 2)
            for op in ("COLLECTIVE_OP_ADD", "COLLECTIVE_OP_MAX", "COLLECTIVE_OP_SQUARE_ADD")
        ]
        local = reduce_scatter(own, COUNT, "COLLECTIVE_OP_LOCAL")
        return [*scattered, local, all_gather(own, 4), all_gather(scattered[0], COUNT)]

    monkeypatch.setenv(AT_ONCE, str(COUNT))
    expected = replicas.run(COUNT, program)
    monkeypatch.setenv(AT_ONCE, str(at_once))
    for received, one in zip(replicas.run(COUNT, program), expected):
        np.testing.assert_array_equal(received, one)
    np.testing.assert_array_equal(expected[-1][5].ravel(), sum_in_order(parts, tf.float32))


@pytest.mark.parametrize("depth", [1, 3])
def test_replica_ahead_finds_its_elements(depth, ends_in_time):
    """Replica 0 takes all of its elements before the other takes any: it has an accumulator."""
    replicas.configure(2)
    strategy, mini_batches, size = ipu_strategy.IPUStrategy(), 20, 65536
    numbers = tf.data.Dataset.range(2 * mini_batches, output_type=tf.float32)
    with strategy.scope():
        infeed = IPUInfeedQueue(numbers.map(lambda x: tf.fill([size], x)), prefetch_depth=depth)

        def body(total: tf.Tensor, element: tf.Tensor) -> tf.Tensor:
            kept = Accumulator([mini_batches, size], tf.float32, "kept").add(
                element + tf.zeros([mini_batches, 1])
            )
            with tf.control_dependencies([kept]):
                return total + element[0]

        def take_if(predicate: tf.Tensor) -> tf.Tensor:
            return tf.cond(
                predicate,
                lambda: loops.repeat(mini_batches, body, [0.0], infeed),
                lambda: tf.constant(0.0),
            )

        @tf.function(jit_compile=True)
        def program() -> tuple[tf.Tensor, tf.Tensor]:
            index = replication_ops.replication_index()
            first = cross_replica_sum(take_if(tf.equal(index, 0)))
            second = take_if(tf.logical_and(tf.equal(index, 1), first > 0))
            return first, cross_replica_sum(second)

        infeed.initializer  # noqa: B018 - runs it
        first, second = strategy.run(program)
    assert first == sum(range(0, 2 * mini_batches, 2))
    assert second == sum(range(1, 2 * mini_batches, 2))


@pytest.mark.parametrize(("count", "at_once"), [(4, 1), (8, 2), (8, 3), (2, 2)])
def test_many_launches_with_random_delays_end(count, at_once, ends_in_time, monkeypatch):
    """Loops of random length stand before all that replicas wait for."""
    monkeypatch.setenv(AT_ONCE, str(at_once))
    replicas.configure(count)
    strategy, launches, steps = ipu_strategy.IPUStrategy(), 60, 3
    numbers = tf.data.Dataset.range(launches * steps * count, output_type=tf.int32)
    with strategy.scope():
        # One that replicas share, and one that each has.
        shared = tf.Variable(tf.zeros([500], tf.int32))
        own = tf.Variable(tf.zeros([20_000], tf.int32))
        infeed = IPUInfeedQueue(numbers.map(lambda x: tf.fill([20_000], x)), prefetch_depth=2)

        def late(value: tf.Tensor) -> tf.Tensor:
            rounds = tf.random.uniform([], 0, 40, tf.int32)
            condition = lambda i, _: i < rounds  # noqa: E731
            return tf.while_loop(condition, lambda i, v: (i + 1, v + v - v), [0, value])[1]

        def body(element: tf.Tensor) -> tf.Operation:
            total = cross_replica_sum(late(element)[:500])
            shared.assign_add(total)
            # Even replicas first add two.
            own.assign_add(late(own * 0 + 2 - replication_ops.replication_index() % 2))
            with tf.control_dependencies([late(shared.read_value())]):
                one = tf.minimum(cross_replica_sum(late(own[0])), 1)
            return tf.group(own.assign_sub(tf.fill([20_000], one)))

        @tf.function(jit_compile=True)
        def program() -> None:
            loops.repeat(steps, body, [], infeed)

        infeed.initializer  # noqa: B018 - runs it
        for _ in range(launches):
            strategy.run(program)
    np.testing.assert_array_equal(shared, sum(range(launches * steps * count)))
    np.testing.assert_array_equal(own, launches * steps)
