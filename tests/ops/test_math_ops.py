"""Tests of `ipu.math_ops`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.ops import math_ops
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import program_of

tf1 = tf.compat.v1

DIMENSIONS = ("a_columns", "a_rows_b_columns", "b_rows")
TRANSPOSITIONS = list(itertools.product((False, True), repeat=2))
# Of m, k and n.
SIZES = (4, 6, 8)


def _matrices(transpose_a, transpose_b, batch=(), dtype=np.float32):
    generator = np.random.default_rng(3)
    m, k, n = SIZES
    a = generator.normal(size=(*batch, *((k, m) if transpose_a else (m, k))))
    b = generator.normal(size=(*batch, *((n, k) if transpose_b else (k, n))))
    return tf.constant(a.astype(dtype)), tf.constant(b.astype(dtype))


def _with_gradients(product, a, b):
    """Returns the product, and the gradients of a function of it in which all elements differ."""
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        result = product(a, b)
        weights = tf.reshape(tf.range(tf.size(result)), tf.shape(result))
        loss = tf.reduce_sum(tf.cast(weights, a.dtype) * result * result) / 16
    return [result, *tape.gradient(loss, [a, b])]


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSITIONS)
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_product_and_gradients_are_those_of_matmul(dimension, transpose_a, transpose_b, batch):
    a, b = _matrices(transpose_a, transpose_b, batch)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    expected = _with_gradients(lambda a, b: tf.matmul(a, b, **flags), a, b)
    actual = _with_gradients(
        lambda a, b: math_ops.serialized_matmul(a, b, 2, dimension, **flags), a, b
    )
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("batches", [((2,), ()), ((), (3,)), ((2, 1), (3,)), ((1,), (2,))], ids=str)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSITIONS)
@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("factor", [1, 2])
def test_outer_dimensions_broadcast(factor, dimension, transpose_a, transpose_b, batches):
    a = _matrices(transpose_a, transpose_b, batches[0])[0]
    b = _matrices(transpose_a, transpose_b, batches[1])[1]
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    expected = _with_gradients(lambda a, b: tf.matmul(a, b, **flags), a, b)
    actual = _with_gradients(
        lambda a, b: math_ops.serialized_matmul(a, b, factor, dimension, **flags), a, b
    )
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_outer_dimensions_not_known_when_traced_broadcast(dimension):
    specs = [tf.TensorSpec([None, None, 4, 6]), tf.TensorSpec([None, 6, 8])]

    @tf.function(input_signature=specs)
    def product(a, b):
        return _with_gradients(lambda a, b: math_ops.serialized_matmul(a, b, 2, dimension), a, b)

    a, b = _matrices(False, False, (2, 1))[0], _matrices(False, False, (3,))[1]
    for one, other in zip(product(a, b), _with_gradients(tf.matmul, a, b)):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_operands_broadcast_in_a_program(dimension):
    a, b = np.ones([2, 4, 6], np.float32), replicas.rows(1, [6, 8])

    def program():
        one, other = tf.constant(a), replicas.own_row(b)
        result = math_ops.serialized_matmul(one, other, 2, dimension)
        return [result, *tf.gradients(result, [one, other])]

    result, of_a, of_b = replicas.run(1, program)
    np.testing.assert_allclose(result[0], a @ b[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_a[0], np.ones([2, 4, 8]) @ b[0].T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_b[0], np.full([6, 8], 8), rtol=1e-5)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_gradients_are_finite_differences(dimension):
    a, b = _matrices(False, True)
    computed, differences = tf.test.compute_gradient(
        lambda a, b: math_ops.serialized_matmul(a, b, 2, dimension, transpose_b=True), [a, b], 0.01
    )
    for one, other in zip(computed, differences):
        np.testing.assert_allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_second_derivatives_are_those_of_matmul(dimension):
    a, b = _matrices(False, False)

    def twice(product):
        with tf.GradientTape() as outer:
            outer.watch(a)
            with tf.GradientTape() as inner:
                inner.watch(b)
                loss = tf.reduce_sum(product(a, b) ** 3)
            gradient = inner.gradient(loss, b)
        return outer.gradient(gradient, a)

    actual = twice(lambda a, b: math_ops.serialized_matmul(a, b, 2, dimension))
    np.testing.assert_allclose(actual, twice(tf.matmul), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("factor", [1, 2, 6])
def test_float16_is_added_in_float32(factor):
    a, b = _matrices(False, False, dtype=np.float16)
    result = math_ops.serialized_matmul(a, b, factor, "a_rows_b_columns")
    assert result.dtype == tf.float16
    exact = a.numpy().astype(np.float64) @ b.numpy()
    np.testing.assert_allclose(result, exact, rtol=2e-3, atol=2e-3)


def test_int32_products_equal_numpy():
    a, b = tf.reshape(tf.range(6), [2, 3]), tf.reshape(tf.range(12), [3, 4])
    for dimension, factor in zip(DIMENSIONS, (2, 3, 4)):
        result = math_ops.serialized_matmul(a, b, factor, dimension)
        np.testing.assert_array_equal(result, a.numpy() @ b.numpy())


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_products_and_gradients_are_right_in_a_program(dimension, in_session, count):
    a = replicas.rows(count, [4, 6])
    b = replicas.rows(count, [6, 8], seed=1)

    def program():
        one, other = replicas.own_row(a), replicas.own_row(b)
        result = math_ops.serialized_matmul(one, other, 2, dimension)
        return [result, *tf.gradients(tf.reduce_sum(result**2), [one, other])]

    results = replicas.run(count, program, in_session)
    product = a @ b
    expected = [product, 2 * product @ b.swapaxes(1, 2), 2 * a.swapaxes(1, 2) @ product]
    for one, other in zip(results, expected):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_all_products_are_small_ones_in_loops(dimension):
    """Forward and both gradients: no product is larger than a part of the whole."""

    def program(a, b):
        product = math_ops.serialized_matmul(a, b, 2, dimension)
        return tf.gradients(product, [a, b])

    specs = [tf.TensorSpec(SIZES[:2]), tf.TensorSpec(SIZES[1:])]
    functions = program_of(program, *specs).functions
    loops = [
        node.attr["body"].func.name
        for function in functions.values()
        for node in function.node_def
        if node.op in ("While", "StatelessWhile")
    ]
    assert loops
    for name, function in functions.items():
        if name not in loops:
            assert not [node for node in function.node_def if node.op == "MatMul"]


def test_dimensions_that_are_not_known_when_traced():
    @tf.function(input_signature=[tf.TensorSpec([None, 6]), tf.TensorSpec([6, None])])
    def product(a, b):
        return math_ops.serialized_matmul(a, b, 2, "a_columns"), math_ops.serialized_matmul(
            a, b, 2, "b_rows"
        )

    a, b = _matrices(False, False)
    for result in product(a, b):
        np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError):
        product(a[:3], b)


@pytest.mark.parametrize(
    ("shapes", "arguments", "message"),
    [
        (([4, 6], [6, 8]), (2, "columns"), "'a_columns', 'a_rows_b_columns', 'b_rows'"),
        (([4, 6], [6, 8]), (0, "a_columns"), "at least 1. Received: 0"),
        (([4, 6], [6, 8]), (2.0, "a_columns"), "must be an int"),
        (
            ([4, 6], [6, 8]),
            (3, "a_columns"),
            "factor .3. must divide the size of .*'a_columns' .4.",
        ),
        (
            ([4, 6], [6, 8]),
            (4, "a_rows_b_columns"),
            "must divide the size of .*'a_rows_b_columns' .6.",
        ),
        (([4, 6], [6, 8]), (3, "b_rows"), "must divide the size of .*'b_rows' .8."),
        (([4], [4, 6]), (1, "b_rows"), "rank 2 or more"),
        (([2, 4, 6], [3, 6, 8]), (2, "b_rows"), "outer dimensions that broadcast"),
        (([4, 6], [5, 8]), (2, "b_rows"), r"agree in the dimension .* not \(6, 5\)"),
    ],
)
def test_wrong_arguments_are_refused(shapes, arguments, message):
    with pytest.raises(ValueError, match=message):
        math_ops.serialized_matmul(*map(tf.zeros, shapes), *arguments)


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match="float32 and float16"):
        math_ops.serialized_matmul(tf.zeros([2, 2]), tf.zeros([2, 2], tf.float16), 1, "b_rows")
    with pytest.raises(TypeError, match="Received: int64"):
        matrix = tf.zeros([2, 2], tf.int64)
        math_ops.serialized_matmul(matrix, matrix, 1, "b_rows")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_segment_sums_equal_numpy(dtype):
    data = np.arange(12, dtype=dtype).reshape(6, 2)
    ids = [0, 0, 2, 2, 2, 3]
    result = math_ops.segment_sum(data, ids, 5)
    expected = [data[:2].sum(0), [0, 0], data[2:5].sum(0), data[5], [0, 0]]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("count", [1, 2])
def test_segment_sum_and_its_gradient_in_a_program(count):
    data = replicas.rows(count, [4, 3])

    def program():
        own = replicas.own_row(data)
        result = math_ops.segment_sum(own, tf.constant([0, 1, 1, 2]), 3)
        return [result, *tf.gradients(result**2, own)]

    result, gradient = replicas.run(count, program)
    rows = np.stack([data[:, 0], data[:, 1] + data[:, 2], data[:, 3]], 1)
    np.testing.assert_allclose(result.reshape(rows.shape), rows, rtol=1e-6)
    np.testing.assert_allclose(gradient.reshape(data.shape), 2 * rows[:, [0, 1, 1, 2]], rtol=1e-6)


def test_segment_sum_refuses_wrong_arguments():
    with pytest.raises(TypeError, match="integers. Received: float32"):
        math_ops.segment_sum([1.0], [0.0], 1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="known when the program is"):
        math_ops.segment_sum([1.0], [0], tf.compat.v1.placeholder(tf.int32, []))
