"""Tests of collectives between the IPUs of one replica, against NumPy."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.ops import replication_ops, within_replica_ops
from tests.support.programs import replicas

ADD, LOCAL = "COLLECTIVE_OP_ADD", "COLLECTIVE_OP_LOCAL"
NUMBERS = {
    ADD: np.add,
    "COLLECTIVE_OP_MUL": np.multiply,
    "COLLECTIVE_OP_MIN": np.minimum,
    "COLLECTIVE_OP_MAX": np.maximum,
}
LOGICAL = {"COLLECTIVE_OP_LOGICAL_AND": np.logical_and, "COLLECTIVE_OP_LOGICAL_OR": np.logical_or}


def vectors(lengths: Sequence[int], dtype: Any = np.float32) -> list[np.ndarray]:
    """Random vectors of these lengths."""
    generator = np.random.default_rng([3, *lengths])
    if dtype is bool:
        return [generator.random(length) < 0.5 for length in lengths]
    return [generator.normal(0, 2, length).astype(dtype) for length in lengths]


def on_shards(arrays: Sequence[np.ndarray]) -> list[tf.Tensor]:
    """Makes each array a tensor that is computed on a shard of its own."""
    tensors = []
    for index, array in enumerate(arrays):
        with scopes.ipu_shard(index):
            value = tf.constant(array)
            other = tf.cast(replication_ops.replication_index() < 0, tf.bool)
            tensors.append(tf.where(other, tf.zeros_like(value), value))
    return tensors


def run(function: Any, arrays: Sequence[np.ndarray], in_session: bool = False) -> list[np.ndarray]:
    """Runs a collective of as many shards as there are arrays."""
    count = 1 << (len(arrays) - 1).bit_length()
    results = replicas.run(count, lambda: function(on_shards(arrays)), in_session)
    # With more IPUs, `replicas.run` has taken the first iteration out already.
    return [np.asarray(result)[0] if count == 1 else np.asarray(result) for result in results]


def padded(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays as vectors of one length."""
    arrays = [np.atleast_1d(array) for array in arrays]
    length = max(len(array) for array in arrays)
    return [np.pad(array, (0, length - len(array))) for array in arrays]


def reduced(arrays: Sequence[np.ndarray], op: str) -> list[np.ndarray]:
    """Each shard's part of a reduction; sums of 16-bit numbers are rounded once."""
    if op == LOCAL:
        return list(arrays)
    wide = [a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays]
    if op == "COLLECTIVE_OP_SQUARE_ADD":
        total = functools.reduce(np.add, [array * array for array in wide])
    else:
        total = functools.reduce({**NUMBERS, **LOGICAL}[op], wide)
    return [total.astype(arrays[0].dtype)] * len(arrays)


class TestValues:
    """All three, for several numbers of shards."""

    @pytest.mark.parametrize("in_session", [False, True])
    @pytest.mark.parametrize("shards", [1, 2, 3, 4])
    def test_all_gather_concatenates_the_shards(self, shards, in_session):
        arrays = vectors(range(2, 2 + shards))
        for result in run(within_replica_ops.all_gather, arrays, in_session):
            np.testing.assert_array_equal(result, np.concatenate(arrays))

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_all_gather_concatenates_along_an_axis(self, axis):
        arrays = [vectors([24])[0].reshape(2, 3, 4), vectors([24, 1])[0].reshape(2, 3, 4)]
        gather = functools.partial(within_replica_ops.all_gather, axis=axis)
        for result in run(gather, arrays):
            np.testing.assert_array_equal(result, np.concatenate(arrays, axis))

    def test_all_gather_of_scalars_is_a_vector(self):
        for result in run(within_replica_ops.all_gather, [np.float32(1), np.float32(2)]):
            assert result.tolist() == [1, 2]

    @pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
    @pytest.mark.parametrize("op", [*NUMBERS, "COLLECTIVE_OP_SQUARE_ADD", LOCAL])
    def test_all_reduce_combines_padded_shards(self, op, dtype):
        arrays = vectors([5, 3], dtype)
        results = run(functools.partial(within_replica_ops.all_reduce, op=op), arrays)
        for got, want in zip(results, reduced(padded(arrays), op)):
            assert got.dtype == dtype
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)

    @pytest.mark.parametrize("dtype", [np.float32, np.float16])
    @pytest.mark.parametrize("op", [*NUMBERS, "COLLECTIVE_OP_SQUARE_ADD", LOCAL])
    def test_reduce_scatter_splits_the_result(self, op, dtype):
        arrays = vectors([5, 3, 7, 1], dtype)
        results = run(functools.partial(within_replica_ops.reduce_scatter, op=op), arrays)
        for index, want in enumerate(reduced(padded(arrays), op)):
            part = np.array_split(want, 4)[index]
            np.testing.assert_array_equal(results[index], np.pad(part, (0, 2 - len(part))))

    @pytest.mark.parametrize("length", [1, 4, 5, 6, 8, 9])
    def test_elements_are_scattered_as_evenly_as_possible(self, length):
        arrays = [np.arange(1, length + 1, dtype=np.float32), *[np.zeros(1, np.float32)] * 3]
        results = run(within_replica_ops.reduce_scatter, arrays)
        longest = -(-length // 4)
        for got, part in zip(results, np.array_split(arrays[0], 4)):
            np.testing.assert_array_equal(got, np.pad(part, (0, longest - len(part))))

    @pytest.mark.parametrize("op", LOGICAL)
    def test_logical_operators_combine_booleans(self, op):
        arrays = vectors([6, 6], bool)
        both = lambda x: (  # noqa: E731
            within_replica_ops.all_reduce(x, op) + within_replica_ops.reduce_scatter(x, op)
        )
        results = run(both, arrays)
        want = reduced(arrays, op)[0]
        for got, expected in zip(results, [want, want, want[:3], want[3:]]):
            np.testing.assert_array_equal(got, expected)

    def test_scalars_count_as_vectors(self):
        scalars = [np.float32(2), np.float32(3)]
        for result in run(within_replica_ops.all_reduce, scalars):
            assert result.tolist() == [5]
        results = run(within_replica_ops.reduce_scatter, scalars)
        assert [result.tolist() for result in results] == [[5], [0]]

    def test_matrices_can_be_reduced(self):
        arrays = [vectors([6])[0].reshape(2, 3), vectors([6, 0])[0].reshape(2, 3)]
        for result in run(within_replica_ops.all_reduce, arrays):
            np.testing.assert_array_equal(result, arrays[0] + arrays[1])

    def test_two_replicas_do_not_mix(self):
        def program():
            index = tf.cast(replication_ops.replication_index(), tf.float32)
            with scopes.ipu_shard(0):
                first = 10 * (index + 1)
            with scopes.ipu_shard(1):
                second = index + 1
            return within_replica_ops.all_reduce([first, second])

        results = replicas.run(4, program)
        np.testing.assert_array_equal(results[0], [[11], [22]])
        np.testing.assert_array_equal(results[1], [[11], [22]])

    def test_all_reduce_runs_in_a_loop(self):
        def body(x):
            with scopes.ipu_shard(1):
                y = x + 1
            return within_replica_ops.all_reduce([x, y])[0]

        result = replicas.run(2, lambda: loops.repeat(3, body, [tf.zeros([2])]), in_session=True)
        assert result.tolist() == [7, 7]

    def test_eager_tensors_are_reduced(self):
        first, second = tf.constant([1.0, 2.0]), tf.constant([3.0])
        results = within_replica_ops.all_reduce([first, second])
        np.testing.assert_array_equal(results, [[4, 2], [4, 2]])


class TestPlacement:
    """IPUs of the ops."""

    @pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "reduce_scatter"])
    def test_result_i_is_on_shard_i(self, collective):
        arrays = vectors([4, 4, 4, 4])

        def program(shards):
            results = getattr(within_replica_ops, collective)(shards)
            return [tf.sin(result, name=f"user_{i}") for i, result in enumerate(results)]

        run(program, arrays)
        (executable,) = cache.executables()
        assert executable.ipus_used == 4
        assert [record.ipu for record in executable.ops if record.type == "Sin"] == [0, 1, 2, 3]
        used = {copy.destination for copy in executable.copies}
        assert used >= ({0, 1, 2, 3} if collective == "all_gather" else {0, 1, 2})


def test_ops_without_shard_have_that_of_their_inputs() -> None:
    arrays = vectors([3, 2, 2, 2])

    def derived(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        first, second, third, fourth = tensors
        third = tf.concat([third, third], 0)
        return within_replica_ops.all_gather([first[0:0], second + 1.0, third, tf.sin(fourth)])

    want = np.concatenate([arrays[1] + 1, arrays[2], arrays[2], np.sin(arrays[3])])
    for result in run(derived, arrays):
        np.testing.assert_allclose(result, want, rtol=1e-6)


class TestGradients:
    """By the definition, and by TensorFlow for the same without shards."""

    @pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "reduce_scatter"])
    def test_gradients_equal_those_of_tensorflow(self, collective):
        arrays = vectors([5, 5])
        weights = vectors([10, 10])

        def loss(results):
            parts = [tf.reduce_sum(r * w[: r.shape[0]]) for r, w in zip(results, weights)]
            return tf.add_n(parts)

        def plain(x, y):
            if collective == "all_gather":
                return [tf.concat([x, y], 0)] * 2
            if collective == "all_reduce":
                return [x + y] * 2
            total = tf.pad(x + y, [[0, 1]])
            return [total[:3], total[3:]]

        def program(shards):
            with tf.GradientTape() as tape:
                tape.watch(shards)
                value = loss(getattr(within_replica_ops, collective)(shards))
            return tape.gradient(value, shards)

        got = run(program, arrays)
        inputs = [tf.constant(array) for array in arrays]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = loss(plain(*inputs))
        for gradient, expected in zip(got, tape.gradient(value, inputs)):
            np.testing.assert_allclose(gradient, expected, rtol=1e-5)


class TestErrors:
    """Errors."""

    ALL = pytest.mark.parametrize("name", ["all_gather", "all_reduce", "reduce_scatter"])

    @ALL
    def test_duplicates_are_refused(self, name):
        x = tf.constant([1.0])
        with pytest.raises(ValueError, match="should not contain any duplicate entries"):
            getattr(within_replica_ops, name)([x, x])

    @ALL
    def test_mixed_types_are_refused(self, name):
        with pytest.raises(ValueError, match="Expected tensors to all be of the same type."):
            getattr(within_replica_ops, name)([tf.constant([1.0]), tf.constant([1])])

    @ALL
    def test_mixed_ranks_are_refused(self, name):
        with pytest.raises(ValueError, match="same rank"):
            getattr(within_replica_ops, name)([tf.constant([1.0]), tf.constant(1.0)])

    @ALL
    def test_an_empty_list_is_refused(self, name):
        with pytest.raises(ValueError, match="at least one tensor"):
            getattr(within_replica_ops, name)([])

    @ALL
    def test_a_tensor_that_is_no_list_is_refused(self, name):
        with pytest.raises(TypeError, match="must be a list of tensors"):
            getattr(within_replica_ops, name)(tf.constant([1.0]))

    def test_gathering_different_dimensions_is_refused(self):
        shards = [tf.zeros([2, 3]), tf.zeros([2, 4])]
        with pytest.raises(ValueError, match="same shape except for dimension 0"):
            within_replica_ops.all_gather(shards, axis=0)

    @pytest.mark.parametrize("axis", [2, -3, None, 0.5])
    def test_an_axis_beyond_the_rank_is_refused(self, axis):
        with pytest.raises(ValueError, match="axis must be an int from -2 to 1"):
            within_replica_ops.all_gather([tf.zeros([2, 3]), tf.ones([2, 3])], axis=axis)

    def test_matrices_cannot_be_scattered(self):
        with pytest.raises(ValueError, match="takes scalars and vectors"):
            within_replica_ops.reduce_scatter([tf.zeros([2, 3]), tf.ones([2, 3])])

    def test_matrices_of_different_shapes_are_refused(self):
        with pytest.raises(ValueError, match="of the same shape"):
            within_replica_ops.all_reduce([tf.zeros([2, 3]), tf.ones([3, 2])])

    def test_an_unknown_operator_is_refused(self):
        with pytest.raises(ValueError, match="op must be one of"):
            within_replica_ops.all_reduce([tf.zeros([2]), tf.ones([2])], "ADD")

    @ALL
    @pytest.mark.parametrize("in_session", [False, True])
    def test_shards_in_another_order_are_refused(self, name, in_session):
        def program():
            with scopes.ipu_shard(0):
                first = tf.sin(tf.ones([2]))
            with scopes.ipu_shard(1):
                second = tf.cos(tf.ones([2]))
            return getattr(within_replica_ops, name)([second, first])

        match = "must be provided in incrementing shard order"
        with pytest.raises(tf.errors.FailedPreconditionError, match=match) as info:
            replicas.run(2, program, in_session)
        assert __file__ in info.value.message

    @ALL
    def test_an_input_without_a_shard_is_refused(self, name):
        def program():
            with scopes.ipu_shard(0):
                first = tf.sin(tf.ones([2]))
            return getattr(within_replica_ops, name)([first, tf.cos(tf.ones([2]))])

        with pytest.raises(tf.errors.FailedPreconditionError, match="Missing shard information"):
            replicas.run(2, program)

    @pytest.mark.parametrize("op", ["COLLECTIVE_OP_LOGICAL_AND"])
    def test_logical_operators_of_numbers_are_refused(self, op):
        with pytest.raises(TypeError, match="cannot reduce tensors of the type float32"):
            within_replica_ops.all_reduce([tf.zeros([2]), tf.ones([2])], op)
