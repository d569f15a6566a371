"""Captured gradients and loss scaling in the training step of `fit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.layers.capture import CaptureUpstreamGradients
from tensorflow_ipu.keras_layers.optimizers import ALSOptimizer
from tests.support.models import keras_models

STEPS = 6


@pytest.fixture
def mixed_float16() -> Iterator[None]:
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    yield
    tf.keras.mixed_precision.set_global_policy("float32")


def _model(captured: bool) -> tf.keras.Model:
    def dense(units: int, seed: int) -> tf.keras.layers.Layer:
        initializer = tf.keras.initializers.GlorotUniform(seed=seed)
        return tf.keras.layers.Dense(units, kernel_initializer=initializer)

    first = dense(4, 1)
    return tf.keras.Sequential(
        [CaptureUpstreamGradients(first, "hidden") if captured else first, dense(2, 2)]
    )


def _fit(model: tf.keras.Model, **arguments: Any) -> None:
    model.fit(keras_models.dataset(), epochs=1, verbose=0, **arguments)


@pytest.mark.parametrize("count", [1, 2])
def test_captured_gradients_decide_on_the_loss_scale(mixed_float16: None, count: int) -> None:
    with keras_models.strategy().scope():
        model = _model(captured=True)
        scaling = ALSOptimizer(
            tf.keras.optimizers.SGD(0.0), update_frequency=1, captured_grads_only=True
        )
        model.compile(scaling, "mse", steps_per_execution=STEPS)
        model.set_gradient_accumulation_options(count)
        _fit(model)
        # Small gradients double the factor with each update. So does an empty histogram: that
        # there are captured gradients shows where all of them count as large.
        assert float(scaling.loss_scaling_factor) == 2.0 ** (STEPS // count)
        large = ALSOptimizer(
            tf.keras.optimizers.SGD(0.0),
            initial_loss_scaling_factor=1024,
            update_frequency=1,
            captured_grads_only=True,
            histogram_bin_edge=0.0,
        )
        model.compile(large, "mse", steps_per_execution=STEPS)
        _fit(model)
        assert float(large.loss_scaling_factor) == 1024 / 2.0 ** (STEPS // count)


def test_keras_does_not_scale_the_loss_again(mixed_float16: None) -> None:
    with keras_models.strategy().scope():
        model = _model(captured=False)
        scaling = ALSOptimizer(tf.keras.optimizers.SGD(0.1))
        model.compile(scaling, "mse")
        assert model.optimizer is scaling
        model.compile("sgd", "mse")
        assert hasattr(model.optimizer, "get_scaled_loss")


def test_scaled_training_equals_that_of_the_inner_optimizer() -> None:
    def trained(wrap: Any) -> list[np.ndarray]:
        with keras_models.strategy().scope():
            model = _model(captured=True)
            model.compile(wrap(tf.keras.optimizers.SGD(0.1)), "mse", steps_per_execution=STEPS)
            _fit(model)
            return model.get_weights()

    plain = trained(lambda optimizer: optimizer)
    scaled = trained(lambda inner: ALSOptimizer(inner, initial_loss_scaling_factor=64))
    for got, want in zip(scaled, plain):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_captures_change_nothing_for_other_optimizers(method: str) -> None:
    batches = list(keras_models.dataset().take(2).as_numpy_iterator())

    def trained(captured: bool) -> list[np.ndarray]:
        with keras_models.strategy().scope():
            model = _model(captured)
            model.compile(tf.keras.optimizers.SGD(0.1), "mse")
            if method == "fit":
                _fit(model)
            else:
                for x, y in batches:
                    model.train_on_batch(x, y)
            return model.get_weights()

    for got, want in zip(trained(True), trained(False)):
        np.testing.assert_allclose(got, want, rtol=1e-5)
