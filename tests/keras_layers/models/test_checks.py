"""Errors of models that cannot run on the IPU, and their advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.models import checks
from tests.support.models import keras_models
from tests.support.models.keras_models import (
    BATCH,
    MLP,
    FunctionalSubclass,
    Kind,
    Subclass,
    X,
    Y,
    train_both,
)

pytestmark = keras_models.KERAS_WARNINGS


def _call(model: tf.keras.Model, method: str) -> Any:
    arguments = {"x": X, "batch_size": BATCH, "verbose": 0}
    if method != "predict":
        arguments["y"] = Y
    return getattr(model, method)(**arguments)


_METHODS = ("fit", "evaluate", "predict")


@pytest.mark.parametrize("method", _METHODS)
def test_models_that_run_eagerly_are_refused(method: str) -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled(run_eagerly=True)
        with pytest.raises(RuntimeError, match="cannot run eagerly when using `IPUStrategy`"):
            _call(model, method)


def test_running_all_functions_eagerly_is_refused() -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled()
        tf.config.run_functions_eagerly(True)
        try:
            with pytest.raises(RuntimeError, match="cannot run eagerly when using `IPUStrategy`"):
                _call(model, "fit")
        finally:
            tf.config.run_functions_eagerly(False)
        _call(model, "fit")


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_models_must_be_compiled(method: str) -> None:
    with keras_models.strategy().scope():
        with pytest.raises(RuntimeError, match="You must compile your model"):
            _call(MLP.build(), method)


@pytest.mark.parametrize("method", _METHODS)
def test_steps_cannot_be_found_automatically(method: str) -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled(steps_per_execution="auto")
        with pytest.raises(ValueError, match='steps_per_execution="auto" is not supported'):
            _call(model, method)


@pytest.mark.parametrize("base", [Subclass, FunctionalSubclass, tf.keras.Sequential])
@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("fit", "train_step"),
        ("fit", "make_train_function"),
        ("evaluate", "make_test_function"),
        ("predict", "make_predict_function"),
    ],
)
def test_overriding_methods_that_programs_replace_is_refused(
    base: type, method: str, name: str
) -> None:
    original = getattr(tf.keras.Model, name)

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs)

    cls = type("Own", (base,), {name: own})
    layers = ([tf.keras.layers.Dense(2)],) if base is tf.keras.Sequential else ()
    with keras_models.strategy().scope():
        model = Kind(lambda: cls(*layers)).compiled()
        with pytest.raises(RuntimeError, match=f"`{name}` .* has been overridden") as caught:
            _call(model, method)
        assert "enable_keras_extensions=False" in str(caught.value)
        # The other methods work.
        if base is FunctionalSubclass:
            _call(model, "predict" if method != "predict" else "evaluate")


def test_what_is_inherited_is_overridden_too() -> None:
    class Base(FunctionalSubclass):
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    class Derived(Base):
        pass

    with keras_models.strategy().scope():
        with pytest.raises(RuntimeError, match="has been overridden"):
            _call(Kind(Derived).compiled(), "fit")


def test_model_with_own_train_step_lacks_extensions() -> None:
    class Own(FunctionalSubclass):
        def train_step(self, data: Any) -> Any:
            return {**super().train_step(data), "own": 2.0 * tf.reduce_sum(data[0])}

    def fit(model: tf.keras.Model) -> Any:
        return model.fit(X, Y, BATCH, epochs=2, verbose=0, shuffle=False).history

    expected = fit(Kind(Own).compiled())
    with keras_models.strategy(enable_keras_extensions=False).scope():
        found = fit(Kind(Own).compiled())
    keras_models.assert_close(found, expected)


def test_test_step_and_predict_step_are_called() -> None:
    class Own(FunctionalSubclass):
        def test_step(self, data: Any) -> Any:
            return {"own": tf.reduce_sum(data[1]), **super().test_step(data)}

        def predict_step(self, data: Any) -> Any:
            return 2.0 * super().predict_step(data)

    train_both(Kind(Own), validation_data=(X, Y))
    with keras_models.strategy().scope():
        found = _call(Kind(Own).compiled(), "predict")
    keras_models.assert_close(found, _call(Kind(Own).compiled(), "predict"))


@pytest.mark.parametrize("method", _METHODS)
def test_a_subclass_without_a_call(method: str) -> None:
    class Empty(tf.keras.Model):
        pass

    with keras_models.strategy().scope():
        model = Kind(Empty).compiled()
        with pytest.raises(NotImplementedError, match="call"):
            _call(model, method)


def test_a_call_with_two_inputs() -> None:
    class Two(tf.keras.Model):
        def call(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
            return first + second

    with keras_models.strategy().scope():
        with pytest.raises(ValueError, match="positional arguments"):
            _call(Kind(Two).compiled(), "fit")


def test_fit_in_a_function_is_refused() -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled()
        with pytest.raises(RuntimeError, match="tf.function"):
            tf.function(lambda: _call(model, "fit"), autograph=False)()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.keras.optimizers.Adam(),
        lambda: tf.keras.optimizers.legacy.Adam(),
        lambda: tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD()),
        lambda: tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.legacy.SGD()),
    ],
)
def test_optimizers_of_keras_can_accumulate(make: Callable[[], Any]) -> None:
    checks.check_optimizer(make())
