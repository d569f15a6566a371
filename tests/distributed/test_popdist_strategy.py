"""`PopDistStrategy` in one process: an `IPUStrategy` by another name."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import keras_models as models
from tests.support.programs import replicas

PopDistStrategy = ipu.distributed.popdist_strategy.PopDistStrategy


@pytest.fixture(params=[1, 2])
def strategy(request):
    replicas.configure(request.param)
    return PopDistStrategy()


def test_the_class_is_public_under_horovod_too():
    from tensorflow.python.ipu.horovod import popdist_strategy

    assert popdist_strategy.PopDistStrategy is PopDistStrategy


def test_is_an_ipu_strategy(strategy):
    assert isinstance(strategy, ipu.ipu_strategy.IPUStrategyV1)
    assert strategy.num_replicas_in_sync == 1
    assert strategy.enable_keras_extensions and strategy.enable_dataset_iterators
    config = ipu.config.IPUConfig()
    assert strategy.update_ipu_config(config) is config


def test_keras_trains_like_stock():
    replicas.configure(1)
    kind = models.Kind(models.sequential)
    expected = models.train(kind, compile_with={"run_eagerly": True})
    models.assert_equal(models.train(kind, PopDistStrategy().scope()), expected)


def test_keras_trains_with_mixed_float16(strategy):
    """Weights stay float32, near the weights of a training in float32."""

    def build():
        return tf.keras.Sequential(
            [
                tf.keras.layers.Dense(4, "tanh", dtype="mixed_float16"),
                tf.keras.layers.Dense(2, dtype="mixed_float16"),
            ]
        )

    trained = {}
    for policy in ("float32", "mixed_float16"):
        tf.keras.mixed_precision.set_global_policy(policy)
        try:
            kind = models.Kind(models.sequential if policy == "float32" else build)
            trained[policy] = models.train(kind, strategy.scope())
        finally:
            tf.keras.mixed_precision.set_global_policy("float32")
    found, expected = trained["mixed_float16"], trained["float32"]
    assert isinstance(found.model.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    models.assert_close(found.model.get_weights(), expected.model.get_weights(), 5e-3)


@pytest.mark.parametrize("add", [True, False])
def test_reductions_in_programs_are_over_replicas(add):
    replicas.configure(2)
    strategy = PopDistStrategy(add_ipu_cross_replica_reductions=add)

    @tf.function(jit_compile=True)
    def program():
        index = tf.cast(ipu.replication_ops.replication_index(), tf.float32) + 1.0
        reduced = [
            strategy.reduce(op, index, axis=None)
            for op in (tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN)
        ]
        kinds.update(value.op.type for value in reduced)
        return reduced

    kinds = set()

    with strategy.scope():
        found = program()
    np.testing.assert_allclose([float(value) for value in found], [3.0, 1.5] if add else [1.0, 1.0])
    assert (kinds == {"IdentityN"}) is not add


def test_reductions_on_the_host_are_over_instances(strategy):
    for op in (tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN):
        assert float(strategy.reduce(op, tf.constant(3.0), axis=None)) == 3.0


def test_broadcast_is_for_the_host():
    strategy = PopDistStrategy()
    with strategy.scope():
        with tf.device("/device:CPU:0"):
            found = strategy.extended.broadcast_to(tf.constant(2.0), "/device:CPU:0")
        assert float(found) == 2.0
        with (
            pytest.raises(RuntimeError, match="only supported on the CPU"),
            ipu.scopes.ipu_scope("/device:IPU:0"),
        ):
            strategy.extended.broadcast_to(tf.constant(2.0), "/device:IPU:0")
