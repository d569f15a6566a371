"""Tests of sums over replicas and of the promise that tensors are equal."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_mean, cross_replica_sum
from tests.support.programs import replicas

COUNTS = [1, 2, 4, 8, 16]
FLOATS = ["float16", "bfloat16", "float32"]
INTEGERS = ["int8", "uint8", "int32", "uint32", "int64"]


def left_to_right(x: np.ndarray, size: int) -> np.ndarray:
    """Returns the sum in groups of `size`, adding replica 0, 1, 2, ... in that order.

    In float32 for 16-bit floats, rounded once.
    """
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    result = np.empty_like(x)
    for group in replicas.groups(len(x), size):
        total = wide[group[0]].copy()
        for replica in group[1:]:
            total += wide[replica]
        result[group] = total.astype(x.dtype)
    return result


def exported(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor in a type that an outfeed takes, with all its bits."""
    wide = {tf.bfloat16: tf.float32, tf.uint32: tf.int32}
    return tf.cast(tensor, wide.get(tensor.dtype, tensor.dtype))


class TestSum:
    """Values."""

    @pytest.mark.parametrize("in_session", [False, True])
    @pytest.mark.parametrize("count", COUNTS)
    def test_the_sum_is_over_all_replicas(self, count, in_session):
        x = replicas.rows(count, [3, 5])
        result = replicas.run(count, lambda: cross_replica_sum(replicas.own_row(x)), in_session)
        np.testing.assert_array_equal(result, left_to_right(x, count))

    @pytest.mark.parametrize(
        ("count", "size"), [(2, 1), (4, 2), (8, 2), (8, 4), (8, 8), (16, 4), (16, 1)]
    )
    def test_groups_sum_among_themselves(self, count, size):
        x = replicas.rows(count, [6])
        result = replicas.run(count, lambda: cross_replica_sum(replicas.own_row(x), size))
        np.testing.assert_array_equal(result, left_to_right(x, size))

    @pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
    def test_all_types_are_summed(self, dtype):
        x = replicas.rows(4, [700], dtype)

        def program():
            total = cross_replica_sum(replicas.own_row(x))
            assert total.dtype == dtype
            return exported(total)

        expected = exported(tf.constant(left_to_right(x, 4)))
        np.testing.assert_array_equal(replicas.run(4, program), expected)

    @pytest.mark.parametrize("dtype", INTEGERS)
    def test_integer_sums_wrap(self, dtype):
        limit = tf.as_dtype(dtype).max if dtype != "int64" else 2**31 - 1
        x = np.full([2, 1], limit, dtype)

        def program():
            total = cross_replica_sum(replicas.own_row(x))
            return exported(total - tf.constant(limit, dtype))

        result = replicas.run(2, program)
        np.testing.assert_array_equal(result, exported(tf.constant(x)))

    @pytest.mark.parametrize("shape", [[], [1], [511], [512], [513], [3, 1, 2], [300, 1000]])
    def test_any_shape_is_summed(self, shape):
        x = replicas.rows(4, shape)
        result = replicas.run(4, lambda: cross_replica_sum(replicas.own_row(x)))
        np.testing.assert_array_equal(result, left_to_right(x, 4))

    def test_order_of_the_sum_matters_and_is_kept(self):
        x = np.float32([[1e8], [1.0], [-1e8], [1.0]])
        result = replicas.run(4, lambda: cross_replica_sum(replicas.own_row(x)))
        assert left_to_right(x, 4)[0] == 1.0 != x[::-1].sum()
        np.testing.assert_array_equal(result, [[1.0]] * 4)

    def test_half_is_rounded_once(self):
        x = np.float16([[2048.0], [1.0], [1.0], [0.0]])  # 2048 + 1 is 2048 in float16
        result = replicas.run(4, lambda: cross_replica_sum(replicas.own_row(x)))
        np.testing.assert_array_equal(result, [[2050.0]] * 4)

    def test_indexed_slices_are_made_dense(self):
        def program():
            row = replication_ops.replication_index()
            slices = tf.IndexedSlices(tf.ones([1, 2]), row[tf.newaxis], tf.constant([4, 2]))
            return cross_replica_sum(slices)

        result = replicas.run(2, program)
        np.testing.assert_array_equal(result, [[[1, 1], [1, 1], [0, 0], [0, 0]]] * 2)

    def test_the_op_has_the_given_name(self):
        with tf.Graph().as_default():
            assert cross_replica_sum(1.0, name="total").op.name == "total"

    def test_outside_a_program_the_sum_is_the_value(self):
        assert cross_replica_sum(3.0).numpy() == 3.0
        with tf.device("/device:IPU:0"):
            assert cross_replica_sum(tf.constant(3.0)).numpy() == 3.0

    def test_results_are_not_shared_when_written(self):
        """Replicas get one buffer, and each may work in place as if it were its own."""
        x = np.ones([4, 1000], np.float32)

        def program():
            total = cross_replica_sum(replicas.own_row(x))
            index = tf.cast(replication_ops.replication_index(), tf.float32)
            for _ in range(5):
                total = tf.nn.relu(total + index)
            return total

        expected = np.repeat(4.0 + 5 * np.arange(4)[:, None], 1000, axis=1)
        for _ in range(3):
            np.testing.assert_array_equal(replicas.run(4, program), expected)


class TestMean:
    """Sum divided by the number of replicas that sum together."""

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_the_mean_is_over_all_replicas(self, count):
        x = replicas.rows(count, [7])
        result = replicas.run(count, lambda: cross_replica_mean(replicas.own_row(x)))
        np.testing.assert_array_equal(result, left_to_right(x, count) / np.float32(count))

    def test_groups_average_among_themselves(self):
        x = replicas.rows(4, [7])
        result = replicas.run(4, lambda: cross_replica_mean(replicas.own_row(x), 2))
        np.testing.assert_array_equal(result, left_to_right(x, 2) / np.float32(2))

    @pytest.mark.parametrize("reduce", [cross_replica_sum, cross_replica_mean])
    def test_a_group_size_of_0_stands_for_all(self, reduce):
        x = replicas.rows(4, [3])

        def program():
            return reduce(replicas.own_row(x), replica_group_size=0), reduce(replicas.own_row(x))

        got, expected = replicas.run(4, program)
        np.testing.assert_array_equal(got, expected)

    @pytest.mark.parametrize("in_session", [False, True])
    def test_float16_does_not_overflow(self, in_session):
        x = np.full([4, 3], 65504, np.float16)
        result = replicas.run(4, lambda: cross_replica_mean(replicas.own_row(x)), in_session)
        assert result.dtype == np.float16
        np.testing.assert_array_equal(result, x)

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
    def test_integers_are_rounded_towards_zero(self, dtype):
        x = np.array([[7, 9], [-8 if dtype != "uint8" else 3, 2], [2, 4], [0, 0]]).astype(dtype)
        result = replicas.run(4, lambda: cross_replica_mean(replicas.own_row(x)))
        expected = np.trunc(x.astype(float).sum(0) / 4)
        np.testing.assert_array_equal(result, [expected] * 4)

    @pytest.mark.parametrize("size", [None, 2])
    def test_the_gradient_of_a_mean_equals_finite_differences(self, size):
        x = replicas.rows(4, [3])

        def program():
            own = replicas.own_row(x)
            return tf.gradients(tf.reduce_sum(cross_replica_mean(own, size) ** 2), own)[0]

        def loss(values):
            groups = replicas.groups(4, size or 4)
            return sum(len(g) * np.sum(values[list(g)].mean(0) ** 2) for g in groups)

        expected = replicas.total_gradient(loss, x.astype(float))
        np.testing.assert_allclose(replicas.run(4, program), expected, atol=1e-4)

    @pytest.mark.parametrize("op", ["SUM", "MEAN"])
    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_a_strategy_reduces_over_replicas(self, count, op):
        x = replicas.rows(count, [7])

        def program():
            pair = {"a": replicas.own_row(x), "b": replicas.own_row(-x)}
            return tf.distribute.get_replica_context().all_reduce(op, pair)

        result = replicas.run(count, program)
        expected = left_to_right(x, count) / np.float32(count if op == "MEAN" else 1)
        np.testing.assert_array_equal(result["a"], expected)
        np.testing.assert_array_equal(result["b"], -expected)

    @pytest.mark.parametrize("op", ["SUM", "MEAN"])
    def test_a_reduction_outside_run_is_over_replicas(self, op):
        replicas.configure(4)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():

            @tf.function(jit_compile=True)
            def program():
                return strategy.reduce(op, replication_ops.replication_index() * 2, axis=None)

            assert program().numpy() == {"SUM": 12, "MEAN": 3}[op]

    @pytest.mark.parametrize("optimizers", ["optimizers", "legacy"])
    def test_a_keras_optimizer_adds_the_gradients_of_replicas(self, optimizers):
        x = replicas.rows(4, [3])
        replicas.configure(4)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            weight = tf.Variable([1.0, 2.0, 3.0])
            keras = tf.keras.optimizers
            optimizer = (keras.legacy if optimizers == "legacy" else keras).SGD(0.5)
            if optimizers == "optimizers":
                optimizer.build([weight])

            @tf.function(jit_compile=True)
            def program():
                optimizer.apply_gradients([(replicas.own_row(x), weight)])

            strategy.run(program)
        expected = np.float32([1, 2, 3]) - np.float32(0.5) * left_to_right(x, 4)[0]
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)


class TestControlFlow:
    """Collectives at any depth."""

    @pytest.mark.parametrize("in_session", [False, True])
    @pytest.mark.parametrize("count", COUNTS)
    def test_collectives_run_in_a_loop(self, count, in_session):
        x = replicas.rows(count, [3], np.int32)

        def body(v):
            return cross_replica_sum(v) // count + 1 + replication_ops.replication_index()

        expected = x.astype(np.int64)
        for _ in range(20):
            expected = expected.sum(0) // count + 1 + np.arange(count)[:, None]
        result = replicas.run(
            count, lambda: loops.repeat(20, body, [replicas.own_row(x)]), in_session
        )
        np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("in_session", [False, True])
    def test_collectives_run_in_nested_loops_and_conditionals(self, in_session):
        @tf.function
        def exchange(v):
            return cross_replica_sum(v) % 1000

        def inner(i, v):
            even = tf.equal(i % 2, 0)
            return i + 1, tf.cond(even, lambda: exchange(v), lambda: exchange(v + 1) * 2)

        def outer(v):
            _, v = loops.repeat(5, inner, [tf.constant(0), v])
            return exchange(v) + replication_ops.replication_index()

        def program():
            return loops.repeat(4, outer, [replication_ops.replication_index()])

        expected = np.arange(4)
        for _ in range(4):
            for i in range(5):
                expected = np.full(
                    4, expected.sum() % 1000 if i % 2 == 0 else (expected + 1).sum() % 1000 * 2
                )
            expected = np.full(4, expected.sum() % 1000) + np.arange(4)
        np.testing.assert_array_equal(replicas.run(4, program, in_session), expected)

    def test_collectives_run_in_the_condition_of_a_loop(self):
        """Replicas count up at different speeds until their sum is large enough."""

        def program():
            step = replication_ops.replication_index() + 1
            return tf.while_loop(lambda v: cross_replica_sum(v) < 100, lambda v: [v + step], [0])[0]

        result = replicas.run(4, program)  # the sum grows by 10 in each iteration
        np.testing.assert_array_equal(result, 10 * np.arange(1, 5))

    def test_independent_collectives_keep_one_order(self):
        """Nothing but the compiler orders them, and they differ in shape."""

        def program():
            index = tf.cast(replication_ops.replication_index(), tf.float32)
            return [cross_replica_sum(tf.fill([size], index + size)) for size in range(1, 30)]

        for result, size in zip(replicas.run(4, program), range(1, 30)):
            np.testing.assert_array_equal(result, np.full([4, size], 6.0 + 4 * size))

    def test_collectives_whose_results_nobody_uses_run(self):
        def body(v):
            cross_replica_sum(tf.ones([3]))
            return cross_replica_sum(v) / 2

        result = replicas.run(2, lambda: loops.repeat(10, body, [tf.constant(1.5)]))
        np.testing.assert_array_equal(result, [1.5, 1.5])


class TestPromise:
    """assume_equal_across_replicas."""

    @pytest.mark.parametrize("inplace", [False, True])
    def test_the_structure_of_tensors_is_kept(self, inplace):
        def program():
            tensors = {"a": [tf.constant([1.0, 2.0]), tf.constant(3)], "b": tf.constant(True)}
            marked = cross_replica_ops.assume_equal_across_replicas(tensors, inplace)
            tf.nest.assert_same_structure(tensors, marked)
            return {"a": marked["a"][0], "n": marked["a"][1], "b": marked["b"]}

        result = replicas.run(2, program)
        np.testing.assert_array_equal(result["a"], [[1, 2]] * 2)
        np.testing.assert_array_equal(result["n"], [3] * 2)
        np.testing.assert_array_equal(result["b"], [True] * 2)

    def test_lets_a_value_into_control_flow(self):
        def program():
            index = replication_ops.replication_index()
            even = cross_replica_ops.assume_equal_across_replicas(index < 100)
            return tf.cond(even, lambda: cross_replica_sum(index), lambda: index)

        np.testing.assert_array_equal(replicas.run(4, program), [6] * 4)

    def test_gradients_pass_through(self):
        def program():
            x = tf.constant([1.0, 2.0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = cross_replica_ops.assume_equal_across_replicas(x * x)
            return tape.gradient(y, x)

        np.testing.assert_array_equal(replicas.run(1, program), [[2.0, 4.0]])


@pytest.mark.parametrize(("count", "size"), [(1, None), (2, None), (4, None), (4, 2), (8, 4)])
def test_gradients_of_sums_equal_finite_differences(count, size):
    """Against finite differences of the sum of all replicas' losses."""
    x, weights = replicas.rows(count, [3]), replicas.rows(count, [3], seed=1)

    def program():
        own, weight = replicas.own_row(x), replicas.own_row(weights)
        with tf.GradientTape() as tape:
            tape.watch(own)
            loss = tf.reduce_sum(tf.tanh(cross_replica_sum(own, size)) * weight)
        return tape.gradient(loss, own)

    def total(values):
        return np.sum(np.tanh(left_to_right(values, size or count)) * weights)

    expected = replicas.total_gradient(total, x.astype(np.float64))
    np.testing.assert_allclose(replicas.run(count, program), expected, atol=1e-4)


def test_gradients_go_through_a_loop():
    x = replicas.rows(2, [3])

    def program():
        own = replicas.own_row(x)
        with tf.GradientTape() as tape:
            tape.watch(own)
            y = own
            for _ in tf.range(3):
                y = tf.tanh(cross_replica_sum(y) * 0.5)
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, own)

    def total(values):
        for _ in range(3):
            values = np.tanh(left_to_right(values, 2) * 0.5)
        return values.sum()

    expected = replicas.total_gradient(total, x.astype(np.float64))
    np.testing.assert_allclose(replicas.run(2, program), expected, atol=1e-4)


class TestErrors:
    """Mistakes of the user."""

    @pytest.mark.parametrize("value", [True, tf.constant([True]), "text", np.float64(1)])
    def test_unsupported_types_are_refused(self, value):
        with pytest.raises(TypeError, match="cross_replica_sum takes tensors of the types float16"):
            cross_replica_sum(value)

    def test_a_negative_group_size_is_refused(self):
        with pytest.raises(ValueError, match="replica_group_size must be at least 0"):
            cross_replica_sum(1.0, -1)

    @pytest.mark.parametrize("size", [1.5, "2", True])
    def test_group_size_that_is_no_int_is_refused(self, size):
        with pytest.raises(TypeError, match="replica_group_size must be an int"):
            cross_replica_mean(1.0, size)

    @pytest.mark.parametrize("in_session", [False, True])
    @pytest.mark.parametrize(("count", "size"), [(1, 2), (4, 3), (2, 4)])
    def test_group_size_that_does_not_divide(self, count, size, in_session):
        pattern = (
            rf"The replica group size \(got {size}\) does not evenly divide the total number of "
            rf"replicas \(got {count}\): the replica_group_size of .*cross_replica_sum"
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
            replicas.run(count, lambda: cross_replica_sum(tf.constant(1.0), size), in_session)

    def test_groups_outside_a_program_are_refused(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Groups of 2 replicas"):
            cross_replica_sum(1.0, 2)
