"""Tests of reducing over replicas with a slice for each."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.ops.reduce_scatter_op import reduce_scatter
from tests.support.programs import replicas

COUNTS = [1, 2, 4, 8, 16]
NUMBERS = {
    "COLLECTIVE_OP_ADD": np.add,
    "COLLECTIVE_OP_MUL": np.multiply,
    "COLLECTIVE_OP_MIN": np.minimum,
    "COLLECTIVE_OP_MAX": np.maximum,
    "COLLECTIVE_OP_SQUARE_ADD": lambda a, b: a + b * b,
}
LOGICAL = {
    "COLLECTIVE_OP_LOGICAL_AND": np.logical_and,
    "COLLECTIVE_OP_LOGICAL_OR": np.logical_or,
}
MEAN = "COLLECTIVE_OP_MEAN"
ADD, LOCAL = "COLLECTIVE_OP_ADD", "COLLECTIVE_OP_LOCAL"
SQUARE_ADD = "COLLECTIVE_OP_SQUARE_ADD"


def scattered(x: np.ndarray, size: int, op: str = ADD) -> np.ndarray:
    """Returns the result on each replica in groups of `size`: in order, with wide 16-bit floats."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    length = math.ceil(x[0].size / size)
    slices = []
    for group in replicas.groups(len(x), size):
        for place, replica in enumerate(group):
            values = [wide[member].ravel() for member in group]
            if op == LOCAL:
                result = wide[replica].ravel()
            else:
                first = values[0] ** 2 if op == SQUARE_ADD else values[0]
                reduction = {**NUMBERS, **LOGICAL, MEAN: np.add}[op]
                result = functools.reduce(reduction, values[1:], first)
            if op == MEAN:
                kind = x.dtype
                result = (
                    np.trunc(result / size) if np.issubdtype(kind, np.integer) else result / size
                )
            padded = np.pad(result, (0, length * size - result.size))
            slices.append(padded[place * length : (place + 1) * length])
    return np.stack(slices).astype(x.dtype)


class TestValues:
    """Against NumPy, replica by replica."""

    @pytest.mark.parametrize("in_session", [False, True])
    @pytest.mark.parametrize("count", COUNTS)
    def test_each_replica_gets_its_slice_of_the_sum(self, count, in_session):
        x = replicas.rows(count, [37])
        result = replicas.run(count, lambda: reduce_scatter(replicas.own_row(x), count), in_session)
        np.testing.assert_array_equal(result, scattered(x, count))

    def test_the_documented_example_pads_with_zeros(self):
        x = np.float32([[1, 2, 3], [10, 20, 30]])
        result = replicas.run(2, lambda: reduce_scatter(replicas.own_row(x), 2))
        np.testing.assert_array_equal(result, [[11, 22], [33, 0]])

    @pytest.mark.parametrize(("count", "size"), [(4, 2), (8, 4), (16, 2), (2, 1)])
    def test_groups_reduce_among_themselves(self, count, size):
        x = replicas.rows(count, [11])
        result = replicas.run(count, lambda: reduce_scatter(replicas.own_row(x), size))
        np.testing.assert_array_equal(result, scattered(x, size))

    @pytest.mark.parametrize("op", [*NUMBERS, MEAN, LOCAL])
    @pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint8", "int32", "int64"])
    def test_all_operators_reduce(self, op, dtype):
        x = replicas.rows(4, [9], dtype)
        result = replicas.run(4, lambda: reduce_scatter(replicas.own_row(x), 4, op))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, scattered(x, 4, op))

    @pytest.mark.parametrize("op", [*LOGICAL, LOCAL])
    def test_logical_operators_reduce_booleans(self, op):
        x = replicas.rows(4, [50], "bool")
        result = replicas.run(4, lambda: reduce_scatter(replicas.own_row(x), 4, op))
        np.testing.assert_array_equal(result, scattered(x, 4, op))

    def test_a_mean_of_float16_does_not_overflow(self):
        x = np.full([4, 4], 65504, np.float16)
        result = replicas.run(4, lambda: reduce_scatter(replicas.own_row(x), 4, MEAN))
        np.testing.assert_array_equal(result, x[:, :1])

    @pytest.mark.parametrize("op", [*NUMBERS, MEAN, LOCAL])
    def test_one_replica_gets_its_own_values(self, op):
        x = replicas.rows(1, [5])
        result = replicas.run(1, lambda: reduce_scatter(replicas.own_row(x), 1, op))
        np.testing.assert_array_equal(result, scattered(x, 1, op))

    @pytest.mark.parametrize("op", ["COLLECTIVE_OP_MIN", "COLLECTIVE_OP_MAX"])
    def test_not_a_number_wins(self, op):
        x = np.float32([[1, np.nan, 3, 4], [1, 2, np.nan, 4]])
        result = replicas.run(2, lambda: reduce_scatter(replicas.own_row(x), 2, op))
        np.testing.assert_array_equal(result, [[1, np.nan], [np.nan, 4]])

    @pytest.mark.parametrize("shape", [[], [1], [3], [4], [5], [2, 3], [3, 1000]])
    def test_any_shape_counts_as_a_vector(self, shape):
        """Tensors count as vectors; short ones leave replicas with nothing but padding."""
        x = replicas.rows(4, shape)
        result = replicas.run(4, lambda: reduce_scatter(replicas.own_row(x), 4))
        np.testing.assert_array_equal(result, scattered(x, 4))

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_lists_of_tensors_are_reduced(self, kind):
        x, y = replicas.rows(2, [3]), replicas.rows(2, [2, 2], np.int32)

        def program():
            both = reduce_scatter(kind([replicas.own_row(x), replicas.own_row(y)]), 2)
            assert isinstance(both, list)
            return both

        first, second = replicas.run(2, program)
        np.testing.assert_array_equal(first, scattered(x, 2))
        np.testing.assert_array_equal(second, scattered(y, 2))

    def test_reduce_scatter_runs_in_a_loop(self):
        x = replicas.rows(4, [4], np.int32)

        def body(v):
            return tf.tile(reduce_scatter(v, 4) % 7, [4])

        result = replicas.run(4, lambda: loops.repeat(10, body, [replicas.own_row(x)]))
        for _ in range(10):
            x = np.tile(scattered(x, 4) % 7, [1, 4])
        np.testing.assert_array_equal(result, x)

    def test_the_static_shape_is_that_of_the_slice(self):
        with tf.Graph().as_default():
            assert reduce_scatter(tf.zeros([3, 3]), 4).shape == [3]


@pytest.mark.parametrize("op", [*NUMBERS, MEAN, LOCAL])
@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 2), (4, 2), (4, 4)])
def test_gradients_equal_finite_differences(op, count, size):
    """Against finite differences of the sum of all replicas' losses."""
    x = replicas.rows(count, [5])
    weights = replicas.rows(count, [math.ceil(5 / size)], seed=1)

    def program():
        own, weight = replicas.own_row(x), replicas.own_row(weights)
        with tf.GradientTape() as tape:
            tape.watch(own)
            loss = tf.reduce_sum(tf.tanh(reduce_scatter(own, size, op)) * weight)
        return tape.gradient(loss, own)

    expected = replicas.total_gradient(
        lambda values: np.sum(np.tanh(scattered(values, size, op)) * weights), x.astype(float)
    )
    np.testing.assert_allclose(replicas.run(count, program), expected, atol=1e-4)


@pytest.mark.parametrize("op", [*NUMBERS, LOCAL])
def test_gradients_are_right_in_a_session(op):
    x = replicas.rows(2, [4])

    def program():
        own = replicas.own_row(x)
        loss = tf.reduce_sum(tf.square(reduce_scatter(own, 2, op)))
        return tf.gradients(loss, own)[0]

    expected = replicas.total_gradient(
        lambda values: np.sum(scattered(values, 2, op) ** 2), x.astype(float)
    )
    np.testing.assert_allclose(replicas.run(2, program, in_session=True), expected, atol=1e-3)


class TestErrors:
    """Mistakes of the user."""

    @pytest.mark.parametrize("op", ["ADD", "COLLECTIVE_OP_MEDIAN", None, ""])
    def test_an_unknown_operator_is_refused(self, op):
        with pytest.raises(ValueError, match="op must be one of COLLECTIVE_OP_ADD, COLLECTIVE_OP_"):
            reduce_scatter(tf.zeros([2]), 2, op)

    @pytest.mark.parametrize("op", NUMBERS)
    def test_number_operators_of_booleans_are_refused(self, op):
        with pytest.raises(TypeError, match=f"{op} takes tensors .*. Received: bool"):
            reduce_scatter(tf.constant([True]), 2, op)

    @pytest.mark.parametrize("op", LOGICAL)
    def test_logical_operators_of_numbers_are_refused(self, op):
        with pytest.raises(TypeError, match=f"{op} takes tensors of the types bool.*: float32"):
            reduce_scatter(tf.zeros([2]), 2, op)

    @pytest.mark.parametrize("factor", [0, -1])
    def test_a_factor_below_one_is_refused(self, factor):
        with pytest.raises(ValueError, match="replication_factor must be at least 1"):
            reduce_scatter(tf.zeros([2]), factor)

    @pytest.mark.parametrize(("count", "factor"), [(1, 2), (4, 3), (2, 4)])
    def test_factor_that_does_not_divide(self, count, factor):
        pattern = rf"got {factor}\) does not evenly .*got {count}\): .*reduce_scatter.*change the"
        with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
            replicas.run(count, lambda: reduce_scatter(tf.zeros([4]), factor))
