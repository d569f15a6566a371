"""Keras's own loss scaling in programs on the IPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers import optimizers
from tests.keras_layers.optimizers import training
from tests.support.programs import replicas

keras = tf.keras
LossScaleOptimizer = keras.mixed_precision.LossScaleOptimizer
each_generation = pytest.mark.parametrize("generation", list(training.GENERATIONS))


def _make(generation: str, dynamic: bool, **settings: Any) -> Any:
    if dynamic:
        settings.setdefault("dynamic_growth_steps", 2)
    return LossScaleOptimizer(
        training.make("momentum", generation), dynamic, initial_scale=64, **settings
    )


@each_generation
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_scaled_training_equals_unscaled_training(
    count: int, dynamic: bool, generation: str
) -> None:
    data = training.targets(5 * count).reshape(5, count, 2, 3)
    opt, got = training.run(lambda: _make(generation, dynamic), training.minimize, data, count)
    reference = training.make("momentum", generation)
    weight = tf.Variable(training.INITIAL)
    for rows in data:
        reference.minimize(
            lambda: sum(training.loss(weight, row) for row in rows),  # noqa: B023
            [weight],
        )
    np.testing.assert_allclose(got, weight.numpy(), rtol=1e-5, atol=1e-6)
    assert opt.loss_scale.numpy() == (64 * 4 if dynamic else 64)


@each_generation
def test_all_replicas_skip_step_that_one_cannot_make(generation: str) -> None:
    def step(opt: Any, weight: tf.Variable, target: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(weight * target)
        opt.minimize(value, [weight], tape=tape)

    data = np.ones([3, 2, 2, 3], np.float32)
    data[1, 1, 0, 0] = np.inf
    opt, got = training.run(lambda: _make(generation, True), step, data, 2)
    momentum, expected = np.zeros([2, 3]), training.INITIAL.astype(np.float64)
    for _ in range(2):
        momentum = 0.9 * momentum - 0.1 * 2
        expected = expected + momentum
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert opt.loss_scale.numpy() == 32
    assert opt.iterations.numpy() == 3


@pytest.mark.parametrize("nanoo", [False, True])
def test_overflow_in_float16_skips_the_step(nanoo: bool) -> None:
    # The device clips, unless it is told to make NaN of it: only then does Keras see the overflow.
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.floating_point_behaviour.nanoo = nanoo
    config.configure_ipu_system()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weight = tf.Variable(tf.ones([3], tf.float16))
        opt = LossScaleOptimizer(keras.optimizers.legacy.SGD(1.0), initial_scale=2.0**15)

        @tf.function(jit_compile=True)
        def step(factor: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(weight * factor)
            opt.minimize(value, [weight], tape=tape)

        strategy.run(step, args=(tf.constant(4.0, tf.float16),))
    assert opt.loss_scale.numpy() == (2**14 if nanoo else 2**15)
    expected = 1.0 if nanoo else 1 - 65504 / 2**15
    np.testing.assert_allclose(weight.numpy(), [expected] * 3, rtol=1e-3)


@each_generation
@pytest.mark.parametrize("dynamic", [False, True])
def test_sparse_gradients_of_replicas_are_scaled(dynamic: bool, generation: str) -> None:
    def step(opt: Any, weight: tf.Variable, target: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.gather(weight, tf.constant([1, 1])) * target[0])
        opt.minimize(value, [weight], tape=tape)

    data = training.targets(2).reshape(1, 2, 2, 3)
    _, got = training.run(lambda: _make(generation, dynamic), step, data, 2)
    expected = training.INITIAL.copy()
    expected[1] -= 0.1 * 2 * data[0, :, 0].sum(0)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@each_generation
def test_both_kinds_of_loss_scaling_combine(generation: str) -> None:
    # With the policy mixed_float16 Keras puts its own around an ALSOptimizer.
    data = training.targets(3)
    for make in (
        lambda inner: LossScaleOptimizer(
            optimizers.ALSOptimizer(inner, update_frequency=1), initial_scale=16
        ),
        lambda inner: optimizers.ALSOptimizer(
            LossScaleOptimizer(inner, initial_scale=16), update_frequency=1
        ),
    ):
        _, got = training.run(
            lambda: make(training.make("momentum", generation)),  # noqa: B023
            training.minimize,
            data[:, None],
        )
        want = training.train_eagerly(training.make("momentum", generation), 3)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@each_generation
def test_mixed_precision_models_train_as_on_the_cpu(generation: str) -> None:
    def trained(on_the_ipu: bool) -> list[np.ndarray]:
        first, second = (keras.initializers.GlorotUniform(seed=seed) for seed in (1, 2))
        model = keras.Sequential(
            [
                keras.layers.Dense(8, "relu", kernel_initializer=first),
                keras.layers.Dense(1, kernel_initializer=second, dtype="float32"),
            ]
        )
        model.build([None, 4])
        opt = LossScaleOptimizer(training.make("momentum", generation), initial_scale=2.0**10)
        training.build(opt, model.trainable_variables)

        def step(x: tf.Tensor, y: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(tf.square(model(x, training=True) - y))
            opt.minimize(value, model.trainable_variables, tape=tape)

        generator = np.random.default_rng(0)
        x, y = generator.normal(size=(3, 8, 4)), generator.normal(size=(3, 8, 1))
        program = tf.function(step, jit_compile=True) if on_the_ipu else step
        for rows, wanted in zip(x.astype(np.float32), y.astype(np.float32)):
            args = (tf.constant(rows), tf.constant(wanted))
            if on_the_ipu:
                tf.distribute.get_strategy().run(program, args=args)
            else:
                program(*args)
        return list(model.get_weights())

    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy(enable_keras_extensions=False)
        with strategy.scope():
            got = trained(True)
        want = trained(False)
    finally:
        keras.mixed_precision.set_global_policy(before)
    for one, other in zip(got, want):
        np.testing.assert_allclose(one, other, atol=2e-3)
