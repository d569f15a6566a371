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


# --- Functions on gradients just before the update ---

Mapped = optimizers.MapGradientOptimizerInvertedChaining


each_generation = pytest.mark.parametrize("generation", list(training.GENERATIONS))


def _stepped(opt: Any, gradient: Any = None) -> np.ndarray:
    weight = tf.Variable([1.0, 2.0])
    training.build(opt, [weight])
    opt.apply_gradients([(tf.constant([3.0, 4.0]) if gradient is None else gradient, weight)])
    return weight.numpy()


@each_generation
def test_gets_gradient_and_variable(generation: str) -> None:
    opt = Mapped(training.make("sgd", generation), lambda g, v: g * v)
    np.testing.assert_allclose(_stepped(opt), [1 - 0.3, 2 - 0.8], rtol=1e-6)
    # The wrapped optimizer is as before.
    np.testing.assert_allclose(_stepped(training.make("sgd", generation)), [0.7, 1.6], rtol=1e-6)
    assert "update_step" not in vars(opt.inner_optimizer)
    assert "_resource_apply_dense" not in vars(opt.inner_optimizer)


@each_generation
def test_gradients_are_mapped_after_clipping(generation: str) -> None:
    opt = Mapped(training.make("clipped", generation), lambda g, v: g * 10)
    np.testing.assert_allclose(_stepped(opt), [1 - 0.3, 2 - 0.4], rtol=1e-6)


@each_generation
def test_the_outermost_is_first(generation: str) -> None:
    opt = Mapped(
        optimizers.ALSOptimizer(Mapped(training.make("sgd", generation), lambda g, v: g * 2)),
        lambda g, v: g + 1,
    )
    np.testing.assert_allclose(_stepped(opt), [1 - 0.8, 2 - 1.0], rtol=1e-6)


@each_generation
def test_sparse_gradients_are_not_mapped(generation: str) -> None:
    opt = Mapped(training.make("sgd", generation), lambda g, v: g * 100)
    rows = tf.IndexedSlices(tf.constant([5.0]), tf.constant([1]), [2])
    np.testing.assert_allclose(_stepped(opt, rows), [1, 1.5], rtol=1e-6)


@each_generation
def test_comes_after_the_sum_over_replicas(generation: str) -> None:
    data = training.targets(2).reshape(1, 2, 2, 3)
    _, got = training.run(
        lambda: Mapped(training.make("sgd", generation), lambda g, v: tf.square(g)),
        training.minimize,
        data,
        2,
    )
    total = (training.INITIAL - data[0]).sum(0)
    np.testing.assert_allclose(got, training.INITIAL - 0.1 * total**2, rtol=1e-5)


def test_wrong_arguments_are_refused() -> None:
    inner = tf.keras.optimizers.SGD()
    with pytest.raises(ValueError, match="callable"):
        Mapped(inner, 3)
    with pytest.raises(NotImplementedError, match="MapGradientOptimizerInvertedChaining"):
        optimizers.MapGradientOptimizer(inner, lambda g, v: g)


def test_a_failing_function_leaves_the_optimizer_alone() -> None:
    def fail(gradient: Any, variable: Any) -> Any:
        raise RuntimeError("no")

    inner = tf.keras.optimizers.legacy.SGD(0.1)
    with pytest.raises(RuntimeError, match="no"):
        _stepped(Mapped(inner, fail))
    np.testing.assert_allclose(_stepped(inner), [0.7, 1.6], rtol=1e-6)
