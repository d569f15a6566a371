"""Tests of the barrier."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import cache
from tensorflow_ipu.ops import control_flow_ops
from tests.support.programs import replicas


def gradients(with_barrier: bool) -> list[tf.Tensor]:
    """Values behind a barrier, and their gradients."""
    x, y = tf.constant([1.0, 2.0]), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        a, b = control_flow_ops.barrier([x * x, y], insert_barrier_for_gradients=with_barrier)
        loss = tf.reduce_sum(a) * b
    return [a, b, *tape.gradient(loss, [x, y])]


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("with_barrier", [False, True])
def test_a_barrier_changes_no_values_and_gradients(with_barrier, count, in_session):
    results = replicas.run(count, lambda: gradients(with_barrier), in_session)
    for got, want in zip(results, [[1, 4], 3, [6, 12], 5]):
        np.testing.assert_array_equal(got, [want] * count)


@pytest.mark.parametrize("with_barrier", [False, True])
def test_one_operation_takes_all_tensors(with_barrier):
    replicas.run(1, lambda: gradients(with_barrier))
    (executable,) = cache.executables()
    waiting = [len(record.inputs) for record in executable.ops if record.type == "IdentityN"]
    assert waiting.count(2) >= 1
    names = [record.name for record in executable.ops if record.type == "IdentityN"]
    # The multiplication of the loss comes after the barrier.
    order = [record.name for record in executable.ops]
    product = next(r.name for r in executable.ops if r.type == "Sum")
    assert order.index(names[0]) < order.index(product)


@pytest.mark.parametrize("with_barrier", [False, True])
def test_eager_gradients_are_those_without_a_barrier(with_barrier):
    for got, want in zip(gradients(with_barrier), [[1, 4], 3, [6, 12], 5]):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("with_barrier", [False, True])
def test_types_and_structures_are_kept(with_barrier):
    tensors = {"a": tf.constant(1, tf.int32), "b": (tf.constant([True]), tf.constant(1.5, "half"))}
    result = control_flow_ops.barrier(tensors, with_barrier)
    tf.nest.assert_same_structure(tensors, result)
    for got, want in zip(tf.nest.flatten(result), tf.nest.flatten(tensors)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_an_unused_result_has_no_gradient():
    x, y = tf.constant(1.0), tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        a, _ = control_flow_ops.barrier([x, y], insert_barrier_for_gradients=True)
        loss = a * 3
    got = tape.gradient(loss, [x, y])
    assert got[0].numpy() == 3
    assert got[1].numpy() == 0


def test_a_barrier_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one tensor"):
        control_flow_ops.barrier([])
