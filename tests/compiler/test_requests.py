"""Compilation ahead of the first run equals compilation at it."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache, requests
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.distributed import ipu_strategy


def test_the_first_run_finds_it_compiled():
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu_strategy.IPUStrategy(enable_keras_extensions=False)
    with strategy.scope():
        weight = tf.Variable([1.0, 2.0], name="weight")

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float16, name="x")])
        def program(x: tf.Tensor) -> tf.Tensor:
            return tf.cast(x, tf.float32) * weight

        concrete = program.get_concrete_function()
        cluster = Cluster.from_graph(concrete.graph, "program", owner=concrete)
        executable, _ = requests.compile_ahead(cluster, 0)
        described = [
            (argument.name, argument.dtype, argument.shape, argument.is_variable)
            for argument in executable.arguments
        ]
        assert described == [
            ("x", tf.float16, (2,), False),
            ("weight", tf.float32, (2,), True),
        ]
        assert executable.launches == 0
        strategy.run(concrete, (tf.constant([1, 1], tf.float16),))
    (launched,) = cache.executables()
    assert launched is executable
    assert executable.launches == 1


def test_there_must_be_such_a_device():
    concrete = tf.function(lambda: tf.constant(1.0)).get_concrete_function()
    cluster = Cluster.from_graph(concrete.graph, "program", owner=concrete)
    with pytest.raises(tf.errors.FailedPreconditionError, match="configured for ordinal 5"):
        requests.compile_ahead(cluster, 5)
