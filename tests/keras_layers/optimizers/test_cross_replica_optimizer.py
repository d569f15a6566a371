"""The mean of gradients over replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers import optimizers
from tests.keras_layers.optimizers import training


@pytest.mark.parametrize("generation", list(training.GENERATIONS))
@pytest.mark.parametrize("count", [1, 2, 4])
def test_updates_are_averaged_over_replicas(count: int, generation: str) -> None:
    data = training.targets(3 * count).reshape(3, count, 2, 3)
    _, got = training.run(
        lambda: optimizers.CrossReplicaOptimizer(training.make("momentum", generation)),
        training.minimize,
        data,
        count,
    )
    reference = training.make("momentum", generation)
    weight = tf.Variable(training.INITIAL)
    for rows in data.mean(1):
        reference.minimize(lambda: training.loss(weight, rows), [weight])  # noqa: B023
    np.testing.assert_allclose(got, weight.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("generation", list(training.GENERATIONS))
def test_sparse_gradients_are_averaged(generation: str) -> None:
    def step(opt: Any, weight: tf.Variable, target: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            rows = tf.gather(weight, tf.constant([1, 1]))
            value = tf.reduce_sum(rows * target[0])
        opt.minimize(value, [weight], tape=tape)

    data = training.targets(2).reshape(1, 2, 2, 3)
    _, got = training.run(
        lambda: optimizers.CrossReplicaOptimizer(training.make("sgd", generation)), step, data, 2
    )
    expected = training.INITIAL.copy()
    expected[1] -= 0.1 * 2 * data[0, :, 0].mean(0)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
