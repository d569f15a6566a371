"""Tests of a replica's index and number."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.ops import replication_ops
from tests.support.programs import replicas

tf1 = tf.compat.v1
COUNTS = [1, 2, 4, 8, 16]


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_each_replica_has_its_index(count, in_session):
    result = replicas.run(count, replication_ops.replication_index, in_session)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, range(count))


@pytest.mark.parametrize("count", COUNTS)
def test_every_replica_knows_their_number(count):
    np.testing.assert_array_equal(
        replicas.run(count, replication_ops.replication_factor), [count] * count
    )


@pytest.mark.parametrize("in_session", [False, True])
def test_the_index_is_known_at_any_depth(in_session):
    @tf.function
    def inner(x):
        return x + replication_ops.replication_index()

    def branch():
        return inner(tf.constant(1000))

    def body(total):
        total += tf.cond(total >= 0, branch, lambda: 0)
        return loops.repeat(2, lambda v: v + replication_ops.replication_index(), [total])

    result = replicas.run(4, lambda: loops.repeat(3, body, [tf.constant(0)]), in_session)
    np.testing.assert_array_equal(result, 3 * (1000 + 3 * np.arange(4)))


def test_index_is_not_a_constant_of_one_replica():
    """TensorFlow's graph optimizers must not compute it ahead."""

    def program():
        return tf.range(3) * replication_ops.replication_index()

    np.testing.assert_array_equal(replicas.run(2, program), [[0, 0, 0], [0, 1, 2]])


def test_outside_a_program_there_is_one_replica():
    assert replication_ops.replication_index().numpy() == 0
    with tf.device("/device:IPU:0"):
        assert replication_ops.replication_index().numpy() == 0
        assert replication_ops.replication_factor().numpy() == 1


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float32", [2.25, -2.25]), ("float16", [2.25, -2.25]), ("int32", [2, -2])],
)
def test_values_are_divided_by_the_number_of_replicas(dtype, expected):
    values = [9, -9]
    result = replicas.run(
        4, lambda: replication_ops.ipu_replication_normalise(tf.constant(values, dtype))
    )
    np.testing.assert_array_equal(result, [expected] * 4)
    assert result.dtype == dtype


@pytest.mark.parametrize("first", [1, 4])
def test_the_count_follows_the_configuration_in_force(first):
    """A graph that was built once runs with as many replicas as there are IPUs."""
    with scopes.ipu_scope("/device:IPU:0"), tf.Graph().as_default():
        with scopes.ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(replication_ops.replication_factor, [])
        for count in (first, 2, 4, 1):
            replicas.configure(count)
            with tf1.Session() as session:
                assert session.run(result)[0] == count


@pytest.mark.parametrize(("ipus", "shard", "expected"), [(4, 0, 4), (4, 1, 2), (8, 2, 2)])
def test_count_of_a_sharded_program(ipus, shard, expected):
    def program():
        with scopes.ipu_shard(shard):
            return replication_ops.replication_index() + 0

    replicas.run(ipus, program)
    assert [executable.replicas for executable in cache.executables()][-1:] == [expected]
