"""The mean over replicas, against plain TensorFlow on the elements of all replicas."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import optimizers
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.models import training
from tests.support.models.training import OPTIMIZERS, tf1

Cross = optimizers.CrossReplicaOptimizer


@pytest.mark.parametrize(
    ("replicas", "name"),
    [(1, "adam"), (2, "momentum"), (2, "rmsprop"), (2, "ftrl"), (4, "adam"), (4, "descent")],
)
def test_all_replicas_do_the_step_of_the_mean(replicas: int, name: str) -> None:
    training.configure(replicas)
    make = OPTIMIZERS[name]
    actual = training.on_the_device(
        lambda loss: Cross(make()).minimize(loss), 4, runs=2, replicas=replicas
    )
    elements = training.data(8 * replicas)
    training.assert_close(actual, training.by_hand(make, elements, replicas, divisor=replicas))
    assert [executable.replicas for executable in cache.executables()] == [replicas]


def test_missing_gradients_are_passed_on() -> None:
    training.configure(2)

    def train(loss: tf.Tensor) -> tf.Operation:
        training.variable("unused", 2)
        return Cross(OPTIMIZERS["descent"]()).minimize(loss)

    assert "unused:0" in training.on_the_device(train, 2, replicas=2)


def test_global_step_counts_steps_and_not_replicas() -> None:
    def train(loss: tf.Tensor) -> tf.Operation:
        step = tf1.get_variable("step", initializer=np.int32(0), use_resource=True, trainable=False)
        return Cross(OPTIMIZERS["descent"]()).minimize(loss, global_step=step)

    training.configure(2)
    assert training.on_the_device(train, 3, replicas=2)["step:0"] == 3


def test_the_strategy_does_not_sum_the_means() -> None:
    training.configure(2)
    x, y = training.data(6)
    with ipu_strategy.IPUStrategy().scope():
        strategy = tf.distribute.get_strategy()
        weights = tf.Variable(tf.zeros([training.FEATURES, 1]))
        opt = Cross(OPTIMIZERS["descent"]())
        iterator = iter(tf.data.Dataset.from_tensor_slices((x, y)))

        @tf.function(jit_compile=True)
        def train() -> None:
            for _ in tf.range(3):
                a, b = next(iterator)
                opt.minimize(
                    lambda a=a, b=b: tf.reduce_mean((tf.matmul(a, weights)[:, 0] - b) ** 2),
                    var_list=[weights],
                )

        strategy.run(train)
    value = np.zeros((training.FEATURES, 1))
    for a, b in zip(x.reshape(3, 2, 2, -1), y.reshape(3, 2, 2)):
        value -= 0.05 * sum(p.T @ (p @ value - q[:, None]) for p, q in zip(a, b)) / 2
    np.testing.assert_allclose(weights.numpy(), value, rtol=1e-5)


def test_wraps_optimizers_of_tensorflow_1_only() -> None:
    with pytest.raises(TypeError, match="wrap no other kind"):
        Cross(tf.keras.optimizers.legacy.SGD(0.1))
