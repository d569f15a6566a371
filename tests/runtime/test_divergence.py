"""Tests of replicas that part ways: an error that says so, and never a hang."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ops import all_to_all_op, cross_replica_ops, replication_ops
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
from tests.support.programs import replicas

tf1 = tf.compat.v1
# A test that hangs fails rather than stopping the suite.
pytestmark = pytest.mark.usefixtures("ends_in_time")
DIVERGED = "The replicas of the program have diverged: .*do not let a condition or a number of"


def promised(value: Any) -> tf.Tensor:
    """Returns a value that the compiler takes for equal on all replicas."""
    return cross_replica_ops.assume_equal_across_replicas(value)


def index() -> tf.Tensor:
    """Returns the replica index, as if it were equal everywhere."""
    return promised(replication_ops.replication_index())


def fails(count: int, program: Any, error: type[Exception], pattern: str) -> None:
    """Checks that a program fails, repeatedly, in TensorFlow 1 and 2, and another runs then."""
    for in_session in (False, True):
        for _ in range(3):
            with pytest.raises(error, match=pattern):
                replicas.run(count, program, in_session)
        result = replicas.run(count, lambda: cross_replica_sum(1.0), in_session)
        np.testing.assert_array_equal(result, [count] * count)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_replicas_at_different_ops_are_an_error(count):
    def program():
        x = tf.ones([3])
        gathered = tf.cond(
            tf.equal(index(), 0),
            lambda: all_to_all_op.all_gather(x, count, name="mine"),
            lambda: tf.stack([cross_replica_sum(x, name="yours")] * count),
        )
        return tf.reduce_sum(gathered)

    pattern = (
        r"diverged: replicas? [\d, ]+ came to the collective \S*(mine|yours)\S* \((IpuAllGather|"
        r"IpuCrossReplicaSum) of float\[3\]\), but replica \d came to the collective \S*(mine|y)"
    )
    fails(count, program, tf.errors.FailedPreconditionError, pattern)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_replica_that_ends_early_is_an_error(count):
    def program():
        return tf.cond(
            tf.equal(index(), 1), lambda: 0.0, lambda: cross_replica_sum(1.0, name="all_of_us")
        )

    pattern = r"diverged: replicas? .* waits? at the collective .*all_of_us.* float\[\]\), but "
    fails(count, program, tf.errors.FailedPreconditionError, pattern + ".*replica 1 ended without")


def test_all_but_one_end_early():
    def program():
        return tf.cond(tf.equal(index(), 3), lambda: cross_replica_sum(1.0), lambda: 0.0)

    fails(4, program, tf.errors.FailedPreconditionError, DIVERGED)


@pytest.mark.parametrize("size", [None, 2])
def test_replicas_with_other_numbers_of_iterations_are_error(size):
    """Whether or not those that end are in the groups of those that go on."""

    def program():
        trips = promised(2 + replication_ops.replication_index() // 2)
        return loops.repeat(trips, lambda v: cross_replica_sum(v, size), [tf.constant(1.0)])

    fails(4, program, tf.errors.FailedPreconditionError, DIVERGED)


def test_other_number_of_iterations_in_an_inner_loop():
    """The total is the same, so the numbers of collectives do not tell."""

    def program():
        def outer(i, v):
            trips = tf.where(tf.equal(i, index()), 1, 2)
            return i + 1, loops.repeat(promised(trips), lambda w: cross_replica_sum(w), [v])

        return loops.repeat(2, outer, [tf.constant(0), tf.constant(1.0)])[1]

    fails(2, program, tf.errors.FailedPreconditionError, "diverged: .* came to another iteration")


def test_replicas_with_different_shapes_are_an_error():
    def program():
        x = tf.ones([index() + 1])
        return tf.reduce_sum(cross_replica_sum(x))

    pattern = r"diverged: .*float\[[12]\]\), but replica [01] came to .*float\[[12]\]\)"
    fails(2, program, tf.errors.FailedPreconditionError, pattern)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_error_in_one_replica_is_one_seen(count):
    """The user sees the first error, not its effect on other replicas."""

    def program():
        def body(i, v):
            row = tf.gather(tf.constant([1.0, 2.0]), tf.where(tf.equal(index(), 1), i, 0))
            return i + 1, cross_replica_sum(v + row)

        return loops.repeat(100, body, [tf.constant(0), tf.constant(1.0)])[1]

    fails(count, program, tf.errors.InvalidArgumentError, r"indices = 2 is not in \[0, 2\)")


def test_an_error_beside_a_waiting_collective_ends_all():
    """A replica that waits and fails at once ends, and so do the others."""

    def program():
        wrong = tf.gather(tf.constant([1.0, 2.0]), replication_ops.replication_index() * 7)
        with tf.control_dependencies([wrong]):
            later = cross_replica_sum(3.0)
        return cross_replica_sum(1.0) + wrong + later

    fails(2, program, tf.errors.InvalidArgumentError, r"indices = 7 is not in \[0, 2\)")


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_infeed_ends_in_the_middle(count):
    replicas.configure(count)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        infeed = IPUInfeedQueue(tf.data.Dataset.range(20 * count + 1, output_type=tf.int32))

        @tf.function(jit_compile=True)
        def program():
            def body(v, x):
                return cross_replica_sum(v + tf.cast(x, tf.float32)) / count

            return loops.repeat(100, body, [tf.constant(0.0)], infeed)

        infeed.initializer  # noqa: B018 - runs it
        with pytest.raises(tf.errors.OutOfRangeError, match="out of range"):
            strategy.run(program)


def test_waiting_replicas_obey_the_time_limit():
    """One replica waits for a dataset that does not go on, and the others for that replica."""
    replicas.configure(4)
    go_on = threading.Event()

    def blocked(x: np.ndarray) -> np.ndarray:
        go_on.wait(60)
        return x

    def read(x):
        y = tf.numpy_function(blocked, [x], tf.int32)
        y.set_shape([])
        return y

    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.range(8, output_type=tf.int32).map(read))

        def program():
            value = tf.cond(tf.equal(index(), 1), infeed._dequeue, lambda: tf.constant(5))
            return cross_replica_sum(value)

        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(program, [])
        try:
            with tf1.Session() as session:
                session.run(infeed.initializer)
                with pytest.raises(tf.errors.DeadlineExceededError):
                    session.run(launch, options=tf1.RunOptions(timeout_in_ms=300))
                go_on.set()
        finally:
            go_on.set()


def test_predicates_from_variables_are_seen_when_they_differ():
    """The compiler does not follow variables."""
    replicas.configure(2)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        variable = tf.Variable(0)

        @tf.function(jit_compile=True)
        def program():
            variable.assign(replication_ops.replication_index())
            return tf.cond(variable > 0, lambda: cross_replica_sum(1.0), lambda: 2.0)

        with pytest.raises(tf.errors.FailedPreconditionError, match=DIVERGED):
            strategy.run(program)


@pytest.mark.parametrize("size", [None, 4])
def test_many_collectives_end_with_the_same_bits(size):
    """20,000 by 8 replicas that are not in step, twice: an end, and the same bits."""
    x = replicas.rows(8, [5])
    count = size or 8

    def body(i, v):
        lazy = tf.equal((i + replication_ops.replication_index()) % 5, 0)
        busy = tf.cond(lazy, lambda: 99.0, lambda: tf.reduce_sum(tf.ones([99])))
        return i + 1, cross_replica_sum(tf.sin(v + busy), size) / count

    def program():
        return loops.repeat(20000, body, [tf.constant(0), replicas.own_row(x)])[1]

    first, second = replicas.run(8, program), replicas.run(8, program)
    np.testing.assert_array_equal(first, second)
    for group in replicas.groups(8, count):
        np.testing.assert_array_equal(first[group], first[group[:1]].repeat(count, axis=0))
