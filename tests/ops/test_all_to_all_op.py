"""Tests of exchanging data between replicas."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.ops.all_to_all_op import all_gather, all_to_all
from tests.support.programs import replicas

COUNTS = [1, 2, 4, 8, 16]
TYPES = ["float16", "float32", "int8", "uint8", "int32", "int64", "bool"]


def gathered(x: np.ndarray, size: int) -> np.ndarray:
    """Returns the result of all_gather in groups of `size` on each replica."""
    return np.stack([x[group] for group in replicas.groups(len(x), size) for _ in group])


def exchanged(x: np.ndarray, split: int, concat: int) -> np.ndarray:
    """Returns the result of all_to_all on each replica."""
    parts = [np.split(row, len(x), axis=split) for row in x]
    return np.stack(
        [np.concatenate([part[to] for part in parts], axis=concat) for to in range(len(x))]
    )


class TestAllGather:
    """all_gather."""

    @pytest.mark.parametrize("in_session", [False, True])
    @pytest.mark.parametrize("count", COUNTS)
    def test_every_replica_gathers_the_values_of_all(self, count, in_session):
        x = replicas.rows(count, [2, 3])
        result = replicas.run(count, lambda: all_gather(replicas.own_row(x), count), in_session)
        np.testing.assert_array_equal(result, gathered(x, count))

    @pytest.mark.parametrize(("count", "size"), [(4, 2), (8, 4), (16, 2), (2, 1)])
    def test_groups_gather_among_themselves(self, count, size):
        x = replicas.rows(count, [3])
        result = replicas.run(count, lambda: all_gather(replicas.own_row(x), size))
        np.testing.assert_array_equal(result, gathered(x, size))

    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("shape", [[], [1], [5]])
    def test_all_types_and_shapes_are_gathered(self, dtype, shape):
        x = replicas.rows(4, shape, dtype)
        result = replicas.run(4, lambda: all_gather(replicas.own_row(x), 4))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, gathered(x, 4))

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_lists_of_tensors_are_gathered(self, kind):
        x, y = replicas.rows(2, [3]), replicas.rows(2, [], np.int32)

        def program():
            both = all_gather(kind([replicas.own_row(x), replicas.own_row(y)]), 2)
            assert isinstance(both, list)
            return both

        first, second = replicas.run(2, program)
        np.testing.assert_array_equal(first, gathered(x, 2))
        np.testing.assert_array_equal(second, gathered(y, 2))

    def test_all_gather_runs_in_a_loop(self):
        x = replicas.rows(4, [3], np.int32)

        def body(v):
            return tf.reduce_sum(all_gather(v, 4), axis=0) % 7

        result = replicas.run(4, lambda: loops.repeat(10, body, [replicas.own_row(x)]))
        for _ in range(10):
            x = np.repeat(x.sum(0, keepdims=True) % 7, 4, axis=0)
        np.testing.assert_array_equal(result, x)

    def test_the_static_shape_has_the_replicas_first(self):
        with tf.Graph().as_default():
            assert all_gather(tf.zeros([2, 3]), 4).shape == [4, 2, 3]

    @pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 2), (4, 2), (4, 4)])
    def test_gradients_equal_finite_differences(self, count, size):
        x = replicas.rows(count, [2, 2])
        weights = replicas.rows(count, [size, 2, 2], seed=1)

        def program():
            own, weight = replicas.own_row(x), replicas.own_row(weights)
            with tf.GradientTape() as tape:
                tape.watch(own)
                loss = tf.reduce_sum(tf.tanh(all_gather(own, size)) * weight)
            return tape.gradient(loss, own)

        expected = replicas.total_gradient(
            lambda values: np.sum(np.tanh(gathered(values, size)) * weights), x.astype(float)
        )
        np.testing.assert_allclose(replicas.run(count, program), expected, atol=1e-4)


class TestAllToAll:
    """all_to_all."""

    @pytest.mark.parametrize("in_session", [False, True])
    @pytest.mark.parametrize("count", COUNTS)
    def test_parts_are_exchanged_between_replicas(self, count, in_session):
        x = replicas.rows(count, [count, 3])
        result = replicas.run(
            count, lambda: all_to_all(replicas.own_row(x), 0, 1, count), in_session
        )
        np.testing.assert_array_equal(result, exchanged(x, 0, 1))

    @pytest.mark.parametrize("split", [0, 1, 2])
    @pytest.mark.parametrize("concat", [0, 1, 2])
    @pytest.mark.parametrize("shape", [[4, 8, 12], [8, 4, 4]])
    def test_any_dimensions_are_split_and_joined(self, split, concat, shape):
        x = replicas.rows(4, shape)
        result = replicas.run(4, lambda: all_to_all(replicas.own_row(x), split, concat, 4))
        np.testing.assert_array_equal(result, exchanged(x, split, concat))

    @pytest.mark.parametrize("dtype", TYPES)
    def test_all_types_are_exchanged(self, dtype):
        x = replicas.rows(2, [2, 5], dtype)
        result = replicas.run(2, lambda: all_to_all(replicas.own_row(x), 0, 0, 2))
        np.testing.assert_array_equal(result, exchanged(x, 0, 0))

    def test_the_inverse_exchange_gives_the_input(self):
        x = replicas.rows(4, [4, 3, 8])

        def program():
            there = all_to_all(replicas.own_row(x), 2, 0, 4)
            assert there.shape == [16, 3, 2]
            return all_to_all(there, 0, 2, 4)

        np.testing.assert_array_equal(replicas.run(4, program), x)

    @pytest.mark.parametrize(("split", "concat"), [(0, 1), (1, 0), (0, 0)])
    def test_gradients_equal_finite_differences(self, split, concat):
        x = replicas.rows(2, [2, 4])
        weights = replicas.rows(2, exchanged(x, split, concat).shape[1:], seed=1)

        def program():
            own, weight = replicas.own_row(x), replicas.own_row(weights)
            with tf.GradientTape() as tape:
                tape.watch(own)
                loss = tf.reduce_sum(tf.tanh(all_to_all(own, split, concat, 2)) * weight)
            return tape.gradient(loss, own)

        expected = replicas.total_gradient(
            lambda values: np.sum(np.tanh(exchanged(values, split, concat)) * weights),
            x.astype(float),
        )
        np.testing.assert_allclose(replicas.run(2, program), expected, atol=1e-4)


class TestErrors:
    """Mistakes of the user."""

    @pytest.mark.parametrize("factor", [0, -2])
    def test_a_factor_below_one_is_refused(self, factor):
        with pytest.raises(ValueError, match="replication_factor must be at least 1"):
            all_gather(tf.zeros([2]), factor)

    @pytest.mark.parametrize("factor", [None, 1.0, "2"])
    def test_a_factor_that_is_no_int_is_refused(self, factor):
        with pytest.raises(TypeError, match="replication_factor must be an int"):
            all_to_all(tf.zeros([2]), 0, 0, factor)

    def test_strings_are_refused(self):
        with pytest.raises(TypeError, match=r"all_gather takes tensors .* bool\. Received: string"):
            all_gather("text", 2)

    @pytest.mark.parametrize(("split", "concat"), [(2, 0), (0, 2), (-1, 0), (0, -1)])
    def test_a_dimension_beyond_the_rank_is_refused(self, split, concat):
        with pytest.raises(ValueError, match="_dimension must be at least 0 and less than"):
            all_to_all(tf.zeros([2, 2]), split, concat, 2)

    def test_a_dimension_that_is_no_int_is_refused(self):
        with pytest.raises(TypeError, match="split_dimension must be an int"):
            all_to_all(tf.zeros([2, 2]), 1.0, 0, 2)

    def test_size_that_cannot_be_split(self):
        with pytest.raises(ValueError, match=r"must be a multiple of 2. Received: x of shape \(3,"):
            all_to_all(tf.zeros([3, 2]), 0, 0, 2)

    @pytest.mark.parametrize(("count", "factor"), [(1, 2), (4, 3), (2, 4)])
    def test_factor_that_does_not_divide(self, count, factor):
        pattern = (
            rf"got {factor}\) does not evenly divide .*got {count}\): the replication_factor of "
            r".*all_gather"
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
            replicas.run(count, lambda: all_gather(tf.zeros([1]), factor))

    @pytest.mark.parametrize(("count", "factor"), [(1, 2), (4, 2), (2, 4)])
    def test_factor_that_is_not_the_number_of_replicas(self, count, factor):
        pattern = rf"got {factor}\) is not the total number of replicas .got {count}\).*all_to_all"
        with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
            replicas.run(count, lambda: all_to_all(tf.zeros([factor]), 0, 0, factor))
