"""Tests of outlined functions: their results, and their functions in the program."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tensorflow_ipu
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import cross_replica_ops, functional_ops, internal_ops, replication_ops
from tests.support.models import pipelines
from tests.support.programs import replicas

tf1 = tf.compat.v1
outlined_function = functional_ops.outlined_function


def matrix(seed: int, dtype: Any = np.float32) -> np.ndarray:
    """A small square matrix."""
    return np.random.default_rng(seed).normal(size=[3, 3]).astype(dtype)


def calls() -> list[str]:
    """Functions that the calls of the last program run, in the order of the program."""
    records = cache.executables()[-1].ops
    following = itertools.chain(records[1:], [None])
    return [
        after.function
        for record, after in zip(records, following)
        if "PartitionedCall" in record.type and after is not None
    ]


def chain(layer: Any, x: tf.Tensor, count: int = 4) -> tf.Tensor:
    """Calls a layer with different weights."""
    for seed in range(count):
        x = layer(x, tf.constant(matrix(seed, x.dtype.as_numpy_dtype)))
    return x


def dense(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """A layer."""
    return tf.tanh(tf.matmul(x, weight)) * 2


def both(function: Any) -> Any:
    """Returns a function like one of a layer that gives the results of it outlined, and plain."""
    return lambda: (function(outlined_function(dense)), function(dense))


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_values_and_gradients_equal_inlined_ones(dtype, in_session):
    def model(layer):
        x = tf.constant(matrix(9, dtype))
        if in_session:
            y = chain(layer, x)
            return y, tf.gradients(y, x)[0]
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = chain(layer, x)
        return y, tape.gradient(y, x)

    outlined, plain = replicas.run(1, both(model), in_session)
    for got, want in zip(outlined, plain):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want)


def test_calls_share_one_function_and_gradient():
    x = tf.constant(matrix(9))

    def program():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = chain(outlined_function(dense), x)
        return tape.gradient(y, x)

    replicas.run(1, program)
    called = calls()
    assert len(called) == 8
    assert len(set(called[:4])) == len(set(called[4:])) == 1


def test_functions_decorated_one_by_one_are_shared_too():
    def program():
        x = tf.constant(matrix(9))
        for seed in range(3):

            @outlined_function
            def layer(value, weight):
                return tf.matmul(value, weight)

            x = layer(x, tf.constant(matrix(seed)))
        return x

    replicas.run(1, program)
    assert len(calls()) == 3
    assert len(set(calls())) == 1


def test_other_shapes_constants_and_shards_are_other_functions():
    def program():
        scale = [2.0]

        @outlined_function
        def scaled(value):
            return value * scale[0]

        results = [scaled(tf.zeros([2])), scaled(tf.zeros([3]))]
        scale[0] = 3.0
        results.append(scaled(tf.ones([2])))
        return tf.concat(results, 0)

    np.testing.assert_array_equal(replicas.run(1, program)[0], [0, 0, 0, 0, 0, 3, 3])
    assert len(set(calls())) == 3


def test_captured_tensors_may_differ_between_calls():
    def program():
        results = []
        for number in range(3):
            outer = tf.constant(matrix(number))
            multiply = outlined_function(lambda x, outer=outer: tf.matmul(x, outer))
            results.append(multiply(tf.constant(matrix(9))))
        return tf.stack(results)

    result = replicas.run(1, program)
    expected = np.stack([matrix(9) @ matrix(number) for number in range(3)])
    np.testing.assert_allclose(result[0], expected, rtol=1e-5)
    assert len(set(calls())) == 1


@pytest.mark.parametrize("shared", [False, True])
def test_variables_follow_variable_scopes(shared):
    def program():
        @outlined_function
        def layer(x):
            weight = tf1.get_variable("w", initializer=matrix(0), use_resource=True)
            return tf.matmul(x, weight)

        x = tf.constant(matrix(9))
        for number in range(3):
            name = "same" if shared else f"layer{number}"
            with tf1.variable_scope(name, reuse=tf1.AUTO_REUSE):
                x = layer(x)
        loss = tf.reduce_sum(x)
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return loss, step

    def plain(*weights):
        x = tf.constant(matrix(9))
        for weight in weights:
            x = tf.matmul(x, weight)
        return tf.reduce_sum(x)

    with tf.Graph().as_default(), tf1.Session() as session:
        replicas.configure(1)
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(program)
        variables = tf1.trainable_variables()
        session.run(tf1.global_variables_initializer())
        session.run(launch)
        updated = session.run(variables)
    assert len(updated) == (1 if shared else 3)
    weights = [tf.Variable(matrix(0)) for _ in updated]
    with tf.GradientTape() as tape:
        loss = plain(*(weights * 3 if shared else weights))
    for got, gradient in zip(updated, tape.gradient(loss, weights)):
        np.testing.assert_allclose(got, matrix(0) - 0.1 * gradient, rtol=1e-4)


def test_trains_a_captured_variable_with_a_tape():
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weight = tf.Variable(matrix(0))

        @outlined_function
        def layer(x):
            return tf.matmul(x, weight)

        @tf.function(jit_compile=True)
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(layer(x)))
            gradient = tape.gradient(loss, weight)
            weight.assign_sub(0.1 * gradient)
            return loss, gradient

        loss, gradient = strategy.run(step, [tf.constant(matrix(9))])
    reference = tf.Variable(matrix(0))
    with tf.GradientTape() as tape:
        expected = tf.reduce_sum(tf.matmul(tf.matmul(matrix(9), reference), reference))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, tape.gradient(expected, reference), rtol=1e-4)
    np.testing.assert_allclose(weight, matrix(0) - 0.1 * gradient.numpy(), rtol=1e-5)


def test_random_numbers_differ_between_calls_and_replicas():
    draw = outlined_function(lambda x: x + tf.random.uniform([1000]))

    def program():
        return tf.stack([draw(tf.zeros([1000])) for _ in range(3)])

    first = replicas.run(2, program)
    assert len(set(calls())) == 3
    numbers = first.reshape([6, 1000])
    assert len(np.unique(numbers, axis=0)) == 6


@pytest.mark.parametrize("in_session", [False, True])
def test_functions_may_have_collectives_and_replica_index(in_session):
    @outlined_function
    def total(x):
        own = x * tf.cast(replication_ops.replication_index() + 1, tf.float32)
        return cross_replica_ops.cross_replica_sum(own)

    def program():
        return total(total(tf.constant([1.0, 2.0])))

    result = replicas.run(2, program, in_session)
    np.testing.assert_array_equal(result, [[9, 18]] * 2)
    assert len(calls()) == 2
    assert len(set(calls())) == 1


def test_a_function_knows_the_counter_of_its_loop():
    @outlined_function
    def next_value(x):
        return 10 * x + internal_ops.get_current_iteration_counter()

    def program():
        return loops.repeat(2, lambda x: next_value(next_value(x)), [0])

    np.testing.assert_array_equal(replicas.run(1, program, in_session=True), [11])


def test_nested_functions_are_shared():
    @outlined_function
    def inner(x):
        return tf.tanh(x)

    @outlined_function
    def outer(x):
        return inner(inner(x))

    result = replicas.run(1, lambda: outer(outer(tf.constant([0.5]))))
    expected = functools.reduce(lambda x, _: np.tanh(x), range(4), np.float32(0.5))
    np.testing.assert_allclose(result[0], [expected], rtol=1e-6)
    assert len(set(calls())) == 2


@pytest.mark.parametrize("in_session", [False, True])
def test_custom_gradients_are_part_of_a_function(in_session):
    def scaling(factor):
        @tf.custom_gradient
        def function(x):
            return x * 1.0, lambda upstream: upstream * factor

        return function

    def program():
        results = []
        for factor in (2.0, 3.0, 2.0):
            x = tf.constant([1.0])
            function = outlined_function(lambda value, factor=factor: scaling(factor)(value))
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(function(x))
            results.append(tape.gradient(y, x))
        return results

    assert np.ravel(replicas.run(1, program, in_session)).tolist() == [4, 9, 4]
    assert len(calls()) == 12
    assert len(set(calls())) == 4  # two factors, there and back


def test_loop_and_second_gradients_equal_inlined_ones():
    def model(layer):
        x = tf.constant([[0.1, 0.2, 0.3]])
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = loops.repeat(2, lambda value: layer(layer(value)), [x])
            first = tape.gradient(y, x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                z = layer(layer(x))
            second = tape.gradient(z, x)
        return first, outer.gradient(second, x)

    def program():
        weight = tf.constant(matrix(0))

        def layer(x):
            return tf.tanh(tf.matmul(x, weight)) + tf.nn.swish(x)

        return model(outlined_function(layer)), model(layer)

    outlined, plain = replicas.run(1, program)
    for got, want in zip(outlined, plain):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_stages_of_a_pipeline_are_outlined():
    count = 4
    outlined = [
        lambda x, labels, stage=stage: outlined_function(stage)(x, labels)
        for stage in pipelines.stages(2)
    ]
    got = pipelines.run(outlined, pipelines.data(count), gradient_accumulation_count=count)
    want = pipelines.expected(count, 1)
    pipelines.assert_same_weights(got, want)


def test_results_may_be_structures_none_and_operations():
    @outlined_function(name="structured")
    def function(x):
        return {"a": x + 1, "b": (x * 2, None)}

    @outlined_function
    def with_operation(x):
        return x + 1, internal_ops.print_tensor(x, name="outlined"), None

    def program():
        structured = function(tf.constant(3.0))
        assert set(structured) == {"a", "b"}
        assert structured["b"][1] is None
        plain = with_operation(tf.constant(5.0))
        assert isinstance(plain, tuple)
        assert plain[1] is None
        return structured["a"], structured["b"][0], plain[0]

    assert [value.item() for value in replicas.run(1, program)] == [4, 6, 6]


def test_functions_may_have_shards_inside():
    @outlined_function(unique_sharding=True)
    def function(x, y):
        with scopes.ipu_shard(0):
            part = x * y
        with scopes.ipu_shard(1):
            return part + x

    def program():
        with scopes.ipu_shard(0):
            x = tf.constant(matrix(0)) + 0
        with scopes.ipu_shard(1):
            y = tf.constant(matrix(1)) + 0
        with scopes.ipu_shard(1):
            return function(x, y)

    replicas.configure(2)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (launch,) = ipu_compiler.compile(program)
        expected = matrix(0) * matrix(1) + matrix(0)
        np.testing.assert_allclose(session.run(launch), expected, rtol=1e-6)


def test_outside_of_programs_it_is_called():
    assert outlined_function(lambda x: x + 1)([1.0]).numpy() == [2]
    traced = tf.function(outlined_function(lambda x: x + 1))
    assert traced(tf.constant(1)).numpy() == 2


def test_the_function_has_both_public_names():
    assert tensorflow_ipu.outlined_function is outlined_function
    assert tensorflow_ipu.function is outlined_function
    assert {"function", "outlined_function"} <= set(dir(tensorflow_ipu))


def test_the_name_and_documentation_stay():
    def documented(x):
        """Says something."""
        return x

    function = outlined_function(documented)
    assert function.__name__ == "documented"
    assert function.__doc__ == "Says something."


class TestErrors:
    """Errors."""

    @pytest.mark.parametrize("returned", [None, [], (None,)])
    def test_a_function_that_returns_no_tensor_is_refused(self, returned):
        with pytest.raises(ValueError, match="must return at least one tensor"):
            outlined_function(lambda: returned)()

    def test_keyword_arguments_are_refused(self):
        with pytest.raises(TypeError, match="takes positional arguments only.*x"):
            outlined_function(lambda x: x)(x=1)

    def test_argument_that_is_no_tensor(self):
        with pytest.raises(TypeError, match="must be tensors, or convert to them"):
            outlined_function(lambda x: x)(object())

    def test_result_that_is_no_tensor(self):
        with pytest.raises(TypeError, match="must return tensors"):
            outlined_function(lambda x: object())(1)

    @pytest.mark.parametrize("options", [{"unique_sharding": 2}, {"keep_input_layouts": "no"}])
    def test_wrong_options_are_refused(self, options):
        with pytest.raises(TypeError, match=next(iter(options))):
            outlined_function(lambda x: x, **options)

    def test_what_is_no_function_is_refused(self):
        with pytest.raises(TypeError, match="func must be a function"):
            outlined_function(3)
