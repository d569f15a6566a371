"""Changing gradients before they are applied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import optimizers
from tests.support.models import training
from tests.support.models.training import OPTIMIZERS, tf1

_WEIGHT_DECAY = 0.01


def _decay(gradient: Any, variable: Any) -> Any:
    return gradient + _WEIGHT_DECAY * variable


def test_the_example_of_the_reference_prints_its_gradients() -> None:
    """It prints the gradients: 5.01, 4.02 and 3.03."""
    with tf.Graph().as_default(), tf1.Session() as session:
        optimizer = tf1.train.GradientDescentOptimizer(0.000001)
        map_optimizer = optimizers.MapGradientOptimizer(optimizer, _decay)
        a, b, c = (tf.Variable([value], dtype=tf.float32) for value in (1.0, 2.0, 3.0))
        pairs = map_optimizer.compute_gradients(a * b + a * c + b * c, [a, b, c])
        session.run(tf1.global_variables_initializer())
        values = [(session.run(gradient), session.run(v)) for gradient, v in pairs]
    np.testing.assert_allclose([g for g, _ in values], [[5.01], [4.02], [3.03]], rtol=1e-6)
    assert [v for _, v in values] == [[1.0], [2.0], [3.0]]


def test_without_a_gradient_there_is_nothing_to_change() -> None:
    with tf.Graph().as_default():
        a, b = tf.Variable(1.0), tf.Variable(1.0)
        optimizer = optimizers.MapGradientOptimizer(OPTIMIZERS["descent"](), _decay)
        pairs = optimizer.compute_gradients(a * 2.0, var_list=[a, b])
    assert [gradient is None for gradient, _ in pairs] == [False, True]
    assert [variable is wanted for (_, variable), wanted in zip(pairs, [a, b])] == [True, True]


@pytest.mark.parametrize("accumulated", [False, True])
def test_gradients_are_mapped_on_the_device(accumulated: bool) -> None:
    """Maps each mini-batch's gradient, in the loop; weight decay is part of the loss by hand."""

    def train(loss: tf.Tensor) -> Any:
        inner = optimizers.MapGradientOptimizer(
            OPTIMIZERS["momentum"](), lambda g, v: tf.convert_to_tensor(g) + 0.1 * v
        )
        return optimizers.GradientAccumulationOptimizerV2(inner, count).minimize(loss)

    def decayed(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        loss = training.loss(x, y)
        return loss + 0.05 * tf.add_n([tf.reduce_sum(v**2) for v in tf1.trainable_variables()])

    training.configure()
    count = 3 if accumulated else 1
    actual = training.on_the_device(train, 6)
    expected = training.by_hand(OPTIMIZERS["momentum"], training.data(6), count, model=decayed)
    training.assert_close(actual, expected)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="gradient_mapping_function to be a function"):
        optimizers.MapGradientOptimizer(OPTIMIZERS["descent"](), 0.1)
    with pytest.raises(TypeError, match=r"tf\.compat\.v1\.train\.Optimizer"):
        optimizers.MapGradientOptimizer(_decay, OPTIMIZERS["descent"]())
