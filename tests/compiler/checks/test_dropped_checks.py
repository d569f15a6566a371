"""Tests of checks of values: dropped with a word where the user wrote them, run on the host."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.programs import replicas

tf1 = tf.compat.v1
POSITIVE, NEGATIVE = np.float32([1, 2]), np.float32([1, -2])


def _run(function, *values, replica_count=1):
    replicas.configure(replica_count)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        return strategy.run(tf.function(function), [tf.constant(value) for value in values])


def _named_lines(text):
    """The source of the lines that a text names."""
    found = re.findall(r"test_dropped_checks.py:(\d+)", text)
    return [linecache.getline(__file__, int(line)).strip() for line in found]


def test_checks_that_the_user_wrote_are_named(warnings):
    def step(x):
        tf.debugging.assert_positive(x)
        tf.debugging.Assert(x[0] > 0, [x])
        tf1.assert_less(x, 1.0)
        x = tf.debugging.check_numerics(x, "not a number")
        return tf.debugging.assert_all_finite(x, "not finite") + 1.0

    assert list(_run(step, NEGATIVE)) == [2.0, -1.0]
    (text,) = warnings
    assert "The chip has no checks of values" in text
    assert "ipu.scopes.outside_compilation_scope()" in text
    assert "floating_point_behaviour" in text
    assert sorted(_named_lines(text)) == sorted(
        linecache.getline(__file__, step.__code__.co_firstlineno + offset).strip()
        for offset in range(1, 6)
    )


def test_checks_in_loops_and_branches_are_named(warnings):
    def step(x):
        for _ in tf.range(2):
            if x[0] > 0:
                tf.debugging.assert_positive(x)  # in the branch
            x = x + 1.0
        return x

    assert list(_run(step, NEGATIVE)) == [3.0, 0.0]
    (text,) = warnings
    assert _named_lines(text) == ["tf.debugging.assert_positive(x)  # in the branch"]


def test_they_are_named_once(warnings):
    def step(x):
        tf.debugging.assert_positive(x)
        return x + 1.0

    for size in (1, 2, 2):
        _run(step, POSITIVE[:size])
    assert len(warnings) == 1


def test_many_dropped_checks_are_counted(warnings):
    def step(x):
        tf.debugging.assert_positive(x)
        tf.debugging.assert_non_negative(x)
        tf.debugging.assert_greater(x, 0.0)
        tf.debugging.assert_less(x, 9.0)
        tf.debugging.assert_equal(x, x + 0.0)
        tf.debugging.assert_none_equal(x, 0.0)
        return x + 1.0

    _run(step, POSITIVE)
    (text,) = warnings
    assert len(_named_lines(text)) == 5
    assert "and 1 more" in text


def test_checks_of_libraries_are_not_mentioned(warnings):
    def step(x):
        labels = tf.cast(x, tf.int32)
        matrix = tf.math.confusion_matrix(labels, labels, num_classes=3)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(reduction="sum")
        loss = loss(labels, tf.one_hot(labels, 3))
        return tf.cast(tf.reduce_sum(matrix), tf.float32) + loss

    _run(step, POSITIVE)
    assert warnings == []


def test_what_nothing_uses_is_not_mentioned(warnings):
    def computation(x):
        tf.debugging.check_numerics(x, "not a number")
        return x + 1.0

    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(computation, [tf.constant(POSITIVE)])
        session.run(result)
    assert warnings == []


def test_checks_added_by_tensorflow_are_named(run_python):
    process = run_python(
        "import tensorflow as tf\n"
        "from tensorflow.python import ipu\n"
        "tf.debugging.enable_check_numerics()\n"
        "config = ipu.config.IPUConfig()\n"
        "config.auto_select_ipus = 1\n"
        "config.configure_ipu_system()\n"
        "strategy = ipu.ipu_strategy.IPUStrategy()\n"
        "with strategy.scope():\n"
        "    print(strategy.run(tf.function(lambda x: tf.math.log(x)), [tf.constant(1.0)]))\n"
    )
    assert "The chip has no checks of values" in process.stderr


@pytest.mark.parametrize("replica_count", [1, 2])
def test_a_check_on_the_host_runs(warnings, replica_count):
    def step(x):
        with scopes.outside_compilation_scope():
            tf.debugging.assert_positive(x, message="a negative element")
            y = tf.debugging.check_numerics(x, "not a number")
        return y + 1.0

    assert list(_run(step, POSITIVE, replica_count=replica_count)) == [2.0, 3.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a negative element"):
        _run(step, NEGATIVE, replica_count=replica_count)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
        _run(step, np.float32([1, np.inf]), replica_count=replica_count)
    assert warnings == []
