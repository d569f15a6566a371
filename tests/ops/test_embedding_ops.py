"""Tests of `embedding_ops.embedding_lookup`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.ops import embedding_ops
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import program_of

FACTORS = (1, 2, 3, 12)


def _table(*inner, dtype=np.float32):
    return np.random.default_rng(5).normal(size=(12, *inner)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("inner", [(), (3,), (2, 3)])
@pytest.mark.parametrize("factor", FACTORS)
def test_rows_are_looked_up(factor, inner, dtype):
    table = (_table(*inner) * 9).astype(dtype)
    ids = np.array([[0, 11, 4], [4, 5, 7]], np.int32)
    result = embedding_ops.embedding_lookup(table, ids, serialization_factor=factor)
    assert result.dtype == dtype
    assert result.shape == (2, 3, *inner)
    np.testing.assert_array_equal(result, table[ids])


@pytest.mark.parametrize("ids", [5, [], [3, 3, 3]])
@pytest.mark.parametrize("factor", FACTORS)
def test_ids_may_have_any_shape(factor, ids):
    table, ids = _table(3), np.array(ids, np.int32)
    result = embedding_ops.embedding_lookup(table, ids, serialization_factor=factor)
    np.testing.assert_array_equal(result, table[ids])


@pytest.mark.parametrize("factor", [2, 3])
def test_serialized_lookup_gives_zero_out_of_range(factor):
    table = _table(3)
    result = embedding_ops.embedding_lookup(table, [-1, 12, 2], serialization_factor=factor)
    np.testing.assert_array_equal(result, [[0] * 3, [0] * 3, table[2]])


def test_rows_out_of_range_are_no_error():
    result = embedding_ops.embedding_lookup(_table(3), [-1, 12, 2])
    np.testing.assert_array_equal(result[2], _table(3)[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("factor", FACTORS)
def test_gradient_is_dense_and_adds_repeated_ids(factor, dtype):
    variable = tf.Variable(_table(3, dtype=dtype))
    ids = np.array([[0, 11, 4], [4, 5, 4]], np.int32)
    weights = np.arange(18, dtype=dtype).reshape(2, 3, 3)
    with tf.GradientTape() as tape:
        rows = embedding_ops.embedding_lookup(variable, ids, serialization_factor=factor)
        loss = tf.reduce_sum(rows * weights)
    gradient = tape.gradient(loss, variable)
    assert isinstance(gradient, tf.Tensor)
    expected = np.zeros((12, 3), dtype)
    np.add.at(expected, ids, weights)
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("factor", [1, 3])
def test_gradient_is_finite_differences(factor):
    def function(table):
        rows = embedding_ops.embedding_lookup(table, [1, 7, 1], serialization_factor=factor)
        return tf.tanh(rows)

    computed, differences = tf.test.compute_gradient(function, [tf.constant(_table(2))], 0.01)
    np.testing.assert_allclose(computed[0], differences[0], atol=1e-3)


@pytest.mark.parametrize("factor", [1, 3])
def test_second_derivatives_equal_those_of_gather(factor):
    table = tf.constant(_table(2))
    with tf.GradientTape() as outer:
        outer.watch(table)
        with tf.GradientTape() as inner:
            inner.watch(table)
            rows = embedding_ops.embedding_lookup(table, [1, 7, 1], serialization_factor=factor)
            loss = tf.reduce_sum(rows**3)
        gradient = inner.gradient(loss, table)
    expected = np.zeros((12, 2), np.float32)
    expected[1], expected[7] = 12 * table[1], 6 * table[7]
    np.testing.assert_allclose(outer.gradient(gradient, table), expected, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("factor", [1, 4])
def test_lookups_and_gradients_are_right_in_a_program(factor, in_session, count):
    tables = replicas.rows(count, [12, 3])
    ids = [[2, 2, 9], [1, 5, 1]]

    def program():
        table = replicas.own_row(tables)
        rows = embedding_ops.embedding_lookup(
            table, replicas.own_row(ids[:count]), serialization_factor=factor
        )
        return [rows, *tf.gradients(rows**2, table)]

    rows, gradients = replicas.run(count, program, in_session)
    for r in range(count):
        expected = np.zeros((12, 3), np.float32)
        np.add.at(expected, ids[r], 2 * tables[r][ids[r]])
        np.testing.assert_array_equal(rows.reshape(count, 3, 3)[r], tables[r][ids[r]])
        np.testing.assert_allclose(gradients.reshape(count, 12, 3)[r], expected, rtol=1e-6)


def test_serialized_lookup_and_gradient_are_loops_over_parts():
    def program(table):
        rows = embedding_ops.embedding_lookup(table, [1, 2], serialization_factor=4)
        return tf.gradients(rows**2, table)

    functions = program_of(program, tf.TensorSpec([12, 3])).functions
    nodes = {node.op: name for name, function in functions.items() for node in function.node_def}
    loops = [
        node.attr["body"].func.name
        for function in functions.values()
        for node in function.node_def
        if node.op in ("While", "StatelessWhile")
    ]
    assert len(loops) == 2
    assert nodes["GatherV2"] in loops
    assert nodes["UnsortedSegmentSum"] in loops


def test_arguments_are_in_the_order_of_the_reference():
    rows = embedding_ops.embedding_lookup(_table(3), [1], "name", 2, indices_are_sorted=True)
    np.testing.assert_array_equal(rows, _table(3)[[1]])


@pytest.mark.parametrize("factor", [0, -2, 1.5, 5])
def test_wrong_factors_are_refused(factor):
    with pytest.raises(ValueError, match="serialization_factor"):
        embedding_ops.embedding_lookup(_table(3), [1], serialization_factor=factor)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="single tensor.*a list of 2"):
        embedding_ops.embedding_lookup([_table(3), _table(3)], [1])
    with pytest.raises(ValueError, match=r"rank of at least 1.*shape \(\)"):
        embedding_ops.embedding_lookup(1.0, [1])
    with pytest.raises(TypeError, match="int32. Received: float32"):
        embedding_ops.embedding_lookup(_table(3), [1.0])
