"""Tests of what a user sees of ops that run here and would not compile for the chip."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_infeed_queue
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.strategy import ipu_strategy
from tests.support.programs import replicas

tf1 = tf.compat.v1
VALUE = np.arange(6).astype(np.float32)


def _run(function, *values, replica_count=1):
    replicas.configure(replica_count)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        return strategy.run(tf.function(function), [tf.constant(value) for value in values])


def _masked_sum(x):
    return tf.reduce_sum(tf.boolean_mask(x, x > 2.0))  # the line of the mask


def _named_line(text):
    """The source of the line that a text begins with."""
    file, line = text.split()[0].split(":")
    assert file == "test_check.py"
    return linecache.getline(__file__, int(line))


@pytest.mark.parametrize("replica_count", [1, 2])
def test_a_program_of_variable_shapes_runs_and_says_so(warnings, replica_count):
    assert _run(_masked_sum, VALUE, replica_count=replica_count).numpy() == 12.0
    (text,) = warnings
    assert "# the line of the mask" in _named_line(text)
    assert "Where (boolean_mask/Where) runs here, and would not compile for the chip" in text
    assert "tf.where(condition, x, y)" in text
    assert "--operator_policy=raise" in text


def test_it_says_so_once_for_each_kind_of_op(warnings):
    def step(x):
        first, second = tf.boolean_mask(x, x > 1.0), tf.boolean_mask(x, x > 2.0)
        return tf.reduce_sum(first) + tf.reduce_sum(second) + tf.reduce_sum(tf.unique(x)[0])

    for _ in range(2):
        _run(step, VALUE)
    _run(step, VALUE[:5])  # another program of the same line
    assert [text.split()[2] for text in warnings] == ["Where", "Unique"]


def test_the_strict_policy_refuses_the_program(policy, warnings):
    policy("raise")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        _run(_masked_sum, VALUE)
    text = str(caught.value)
    assert "Detected unsupported operations when trying to compile graph" in text
    assert "--operator_policy=raise" in text
    assert "test_check.py:" in text and "Where (boolean_mask/Where)" in text
    assert "What to do: use tf.where(condition, x, y)" in text
    assert warnings == []
    assert _run(lambda x: x * 2.0, VALUE).numpy()[5] == 10.0


def test_the_strict_policy_says_how_many_there_are(policy):
    policy("raise")

    def step(x):
        whole = tf.cast(x, tf.int32)
        number = tf.reduce_max(whole)
        parts = [tf.unique(x)[0], tf.boolean_mask(x, x > 1.0), tf.range(number)]
        parts += [tf.fill([number], 1), tf.math.bincount(whole), tf.one_hot(0, number)]
        return sum(tf.reduce_sum(tf.cast(part, tf.float32)) for part in parts)

    with pytest.raises(tf.errors.InvalidArgumentError, match="There are 1 more"):
        _run(step, VALUE)


def test_the_lenient_policy_is_silent(policy, warnings):
    policy("allow")
    assert _run(_masked_sum, VALUE).numpy() == 12.0
    assert warnings == []


def test_what_the_host_runs_is_not_mentioned(policy):
    policy("raise")

    def step(x):
        with scopes.outside_compilation_scope():
            kept = tf.reduce_sum(tf.boolean_mask(x, x > 2.0))
        return kept * 2.0

    assert _run(step, VALUE).numpy() == 24.0
    assert _run(step, VALUE, replica_count=2).numpy() == 24.0


def test_what_nothing_uses_is_not_mentioned(policy):
    policy("raise")

    def computation(x):
        tf.boolean_mask(x, x > 2.0)
        return x * 2.0

    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(computation, [tf.constant(VALUE)])
        assert session.run(result)[5] == 10.0


def test_constants_of_the_graph_are_known_to_the_program(policy):
    """Those that are passed in, and those that are captured."""
    policy("raise")
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        shape = tf.constant([2, 3])

        def computation(x, count):
            return tf.reshape(x, shape), tf.range(count)

        with scopes.ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(computation, [tf.constant(VALUE), 4])
        matrix, numbers = session.run(results)
    assert matrix.shape == (2, 3)
    assert list(numbers) == [0, 1, 2, 3]


@pytest.mark.parametrize("value", [VALUE, np.int32([1, 2, 2])])
def test_data_that_is_constant_in_the_graph_is_data(warnings, value):
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(lambda x: tf.unique(x)[0], [tf.constant(value)])
        assert len(session.run(result)) == len(set(value))
    (text,) = warnings
    assert "Unique (Unique)" in text


def test_inputs_of_a_program_that_is_compiled_eagerly_are_known_to_it(policy):
    policy("raise")
    replicas.configure(1)
    with scopes.ipu_scope("/device:IPU:0"):
        (numbers,) = ipu_compiler.compile(tf.range, [4])
    assert list(numbers) == [0, 1, 2, 3]


def test_a_number_from_an_infeed_is_not_known(policy):
    policy("raise")
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(3).repeat())

        def body(total, count):
            return total + tf.reduce_sum(tf.range(count))

        with scopes.ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(lambda: loops.repeat(2, body, [0], queue))
        session.run(queue.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="IpuInfeedDequeue"):
            session.run(result)


def test_a_keras_model_with_a_recurrent_layer_is_accepted(policy):
    policy("raise")
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input([4]),
                tf.keras.layers.Reshape([2, 2]),
                tf.keras.layers.LSTM(3),
                tf.keras.layers.Dropout(0.5),
                tf.keras.layers.Dense(2, activation="softmax"),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(np.ones([8, 4], np.float32), np.ones([8]), batch_size=4, verbose=0)
        assert model.predict(np.ones([4, 4], np.float32), batch_size=4, verbose=0).shape == (4, 2)
