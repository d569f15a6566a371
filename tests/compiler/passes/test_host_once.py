"""The pass that runs host ops once for all replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops, scopes
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tests.support.programs import replicas

tf1 = tf.compat.v1
COUNTS = [1, 2, 4]


class Host:
    """Values that the host received."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def double(self, x: tf.Tensor, shape: Any = ()) -> tf.Tensor:
        """Notes a value and returns twice of it, computed by Python."""

        def compute(value: np.ndarray) -> np.ndarray:
            self.calls.append(np.asarray(value).tolist())
            return np.asarray(value * 2, value.dtype)

        y = tf1.py_func(compute, [x], x.dtype)
        y.set_shape(shape)
        return y

    def note(self, x: tf.Tensor) -> tf.Operation:
        """Notes a value."""
        return tf1.py_func(lambda value: self.calls.append(np.asarray(value).tolist()), [x], [])


@pytest.fixture
def host() -> Host:
    """Returns a host that has seen nothing."""
    return Host()


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_host_runs_once_with_tensors_of_replica_0(host, count, in_session):
    def program():
        index = replication_ops.replication_index() + 5
        with scopes.outside_compilation_scope():
            y = host.double(index)
        return y + replication_ops.replication_index()

    result = replicas.run(count, program, in_session)
    np.testing.assert_array_equal(result, 10 + np.arange(count))
    assert host.calls == [5]


def test_host_runs_once_in_loop_and_branch(host):
    def body(i, v):
        def on_host():
            with scopes.outside_compilation_scope():
                return host.double(v)

        return i + 1, tf.cond(tf.equal(i % 2, 0), on_host, lambda: v + 1)

    def program():
        start = replication_ops.replication_index() + 1
        return loops.repeat(4, body, [tf.constant(0), start])[1]

    np.testing.assert_array_equal(replicas.run(4, program), [7, 7, 7, 7])
    assert host.calls == [1, 3]


def test_ops_of_device_between_those_of_a_scope(host):
    """A scope may lie on both sides of them; none of it waits for itself."""

    def on_device(x):
        graph = tf1.get_default_graph()
        outside = graph._attr_scope_map.pop("_xla_outside_compilation")
        y = cross_replica_ops.cross_replica_sum(x) + 1
        graph._attr_scope_map["_xla_outside_compilation"] = outside
        return y

    def program():
        index = replication_ops.replication_index() + 1
        with scopes.outside_compilation_scope():
            y = host.double(on_device(host.double(index)))
        return y + index

    np.testing.assert_array_equal(replicas.run(2, program), [11, 12])
    assert host.calls == [1, 5]


def test_two_scopes_in_a_row_run_once_each(host):
    def program():
        index = replication_ops.replication_index() + 1
        with scopes.outside_compilation_scope():
            text = tf.strings.as_string(index)
            first = host.double(index)
        with scopes.outside_compilation_scope():
            # Strings go from host to host; the device has none.
            length = tf.strings.length(tf.strings.join([text, "!"]))
            second = host.double(first + length)
        return second + index

    np.testing.assert_array_equal(replicas.run(2, program), [9, 10])
    assert host.calls == [1, 4]


def test_a_host_computation_without_results_runs_once(host):
    def program():
        index = replication_ops.replication_index()
        with scopes.outside_compilation_scope():
            log = host.note(index + 7)
        with tf.control_dependencies([log]):
            return index * 2

    np.testing.assert_array_equal(replicas.run(2, program, in_session=True), [0, 2])
    np.testing.assert_array_equal(replicas.run(2, program), [0, 2])
    assert host.calls == [7, 7]


def test_results_of_any_shape_reach_all_replicas(host):
    def program():
        index = replication_ops.replication_index()
        x = tf.cast(tf.fill([2, 3], index + 1), tf.float32)
        with scopes.outside_compilation_scope():
            y = host.double(x, [2, 3])
            both = tf.split(y, 3, axis=1)
        return [both[2], both[0] + 1, y]

    a, b, c = replicas.run(4, program)
    np.testing.assert_array_equal(a, np.full([4, 2, 1], 2.0))
    np.testing.assert_array_equal(b, np.full([4, 2, 1], 3.0))
    np.testing.assert_array_equal(c, np.full([4, 2, 3], 2.0))
    assert len(host.calls) == 1


def test_control_flow_runs_on_the_host(host):
    def program():
        index = replication_ops.replication_index() + 1
        with scopes.outside_compilation_scope():
            y = tf.cond(index > 0, lambda: host.double(index), lambda: index)
            y.set_shape([])
        return y

    np.testing.assert_array_equal(replicas.run(2, program), [2, 2])
    assert host.calls == [1]


def test_an_error_on_the_host_ends_all_replicas():
    def fail(_):
        raise ValueError("host says no")

    def program():
        with scopes.outside_compilation_scope():
            y = tf1.py_func(fail, [replication_ops.replication_index()], tf.int32)
            y.set_shape([])
        return y

    for in_session in (False, True):
        with pytest.raises(tf.errors.InvalidArgumentError, match="host says no"):
            replicas.run(4, program, in_session)


def test_a_resource_cannot_be_shared():
    def program():
        with scopes.outside_compilation_scope():
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])
            value = tf.cast(replication_ops.replication_index(), tf.float32)
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
        return tf.raw_ops.VarIsInitializedOp(resource=handle)

    with pytest.raises(tf.errors.UnimplementedError, match="is a resource made outside compil"):
        replicas.run(2, program)
