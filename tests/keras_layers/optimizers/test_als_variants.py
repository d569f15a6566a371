"""Automatic loss scaling with an optimizer that is made of hyperparameters."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers import optimizers
from tests.keras_layers.optimizers import training
from tests.support.models import keras_models

pytestmark = keras_models.KERAS_WARNINGS

legacy = tf.keras.optimizers.legacy

ALS = {
    "initial_loss_scaling_factor": 1,
    "update_frequency": 8,
    "increase_factor": 2,
    "max_loss_scaling_factor": 32768,
    "accumulate_statistics_over_update_period": True,
    "ratio_threshold": 10e-6,
    "captured_grads_only": False,
    "lpf_alpha": 0.0,
    "histogram_bin_edge": 8192,
}
OWN: dict[str, dict[str, Any]] = {
    "ALSOptimizerAdam": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "ALSOptimizerSGD": {"learning_rate": 0.01, "momentum": 0.0},
    "ALSOptimizerRMSProp": {
        "learning_rate": 0.001,
        "rho": 0.9,
        "momentum": 0.0,
        "epsilon": 1e-7,
        "centered": False,
    },
}
OTHER: dict[str, dict[str, Any]] = {
    "ALSOptimizerAdam": {"learning_rate": 0.05, "beta_1": 0.5, "beta_2": 0.75, "epsilon": 1e-3},
    "ALSOptimizerSGD": {"learning_rate": 0.1, "momentum": 0.5},
    "ALSOptimizerRMSProp": {
        "learning_rate": 0.05,
        "rho": 0.5,
        "momentum": 0.25,
        "epsilon": 1e-3,
        "centered": True,
    },
}
STOCK = {
    "ALSOptimizerAdam": legacy.Adam,
    "ALSOptimizerSGD": legacy.SGD,
    "ALSOptimizerRMSProp": legacy.RMSprop,
}
each_class = pytest.mark.parametrize("name", list(OWN))


@each_class
def test_arguments_and_defaults_are_those_documented(name: str) -> None:
    cls = getattr(optimizers, name)
    found = inspect.signature(cls.__init__).parameters
    expected = {**OWN[name], **ALS, "name": name}
    assert {key: one.default for key, one in found.items() if key != "self"} == expected
    assert list(found) == ["self", *expected]
    opt = cls()
    assert isinstance(opt, optimizers.ALSOptimizer)
    assert opt.get_config() == expected


@each_class
@pytest.mark.parametrize("settings", [{}, {"update_frequency": 2, "lpf_alpha": 0.5}])
def test_a_configuration_makes_the_same_optimizer(name: str, settings: dict[str, Any]) -> None:
    cls = getattr(optimizers, name)
    opt = cls(*OTHER[name].values(), **settings, name="mine")
    config = opt.get_config()
    assert config == {**OTHER[name], **ALS, **settings, "name": "mine"}
    again = cls.from_config(config)
    assert type(again) is type(opt)
    assert again.get_config() == config
    serialized = tf.keras.optimizers.serialize(opt)
    assert tf.keras.optimizers.deserialize(serialized).get_config() == config


def test_a_schedule_is_in_the_configuration() -> None:
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    opt = optimizers.ALSOptimizerSGD(schedule)
    again = optimizers.ALSOptimizerSGD.from_config(opt.get_config())
    assert again.get_config() == opt.get_config()
    assert isinstance(again.learning_rate, tf.keras.optimizers.schedules.ExponentialDecay)


@each_class
def test_steps_are_those_of_stock_keras(name: str) -> None:
    found = training.train_eagerly(
        getattr(optimizers, name)(
            **OTHER[name], initial_loss_scaling_factor=16, update_frequency=2
        ),
        8,
    )
    expected = training.train_eagerly(STOCK[name](**OTHER[name]), 8)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@each_class
def test_weights_are_those_of_the_inner_optimizer(name: str) -> None:
    opt, stock = getattr(optimizers, name)(**OTHER[name]), STOCK[name](**OTHER[name])
    for one in (opt, stock):
        training.train_eagerly(one, 3)
    shapes = [array.shape for array in stock.get_weights()]
    assert [array.shape for array in opt.get_weights()] == shapes
    assert [variable.shape for variable in opt.variables()] == shapes
    assert len(opt.weights) == len(shapes)
    opt.set_weights([array * 0 for array in opt.get_weights()])
    assert not any(np.any(array) for array in opt.get_weights())
    assert opt.learning_rate.numpy() == np.float32(OTHER[name]["learning_rate"])


@each_class
def test_fit_trains_with_all_variants(name: str) -> None:
    made = {
        False: lambda: STOCK[name](**OTHER[name]),
        True: lambda: getattr(optimizers, name)(**OTHER[name], update_frequency=1),
    }
    kind = keras_models.Kind(keras_models.functional)
    expected = keras_models.train(kind, optimizer=made[False], compile_with={"run_eagerly": True})
    found = keras_models.train(kind, keras_models.strategy().scope(), optimizer=made[True])
    keras_models.assert_close(found.model.get_weights(), expected.model.get_weights())
    assert found.model.optimizer.loss_scaling_factor.numpy() == 2**12


@each_class
def test_gradient_accumulation_wraps_a_variant(name: str) -> None:
    cls = optimizers.ALSGradientAccumulationOptimizer
    opt = cls(getattr(optimizers, name)(**OTHER[name]), 4)
    config = opt.get_config()
    assert config["inner_optimizer_config"] == {**OTHER[name], **ALS, "name": name}
    assert cls.from_config(config).get_config() == config


def test_an_optimizer_is_not_wrapped() -> None:
    for cls in (
        optimizers.ALSOptimizerAdam,
        optimizers.ALSOptimizerSGD,
        optimizers.ALSOptimizerRMSProp,
    ):
        for opt in (tf.keras.optimizers.Adam(), legacy.SGD()):
            with pytest.raises(ValueError, match="Use ALSOptimizer to wrap it"):
                cls(opt)


@each_class
def test_wrong_settings_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="increase_factor must be a power of two"):
        getattr(optimizers, name)(increase_factor=3)
