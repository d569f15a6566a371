"""Gradient accumulation in `fit`: one update for several mini-batches of each replica."""

from __future__ import annotations

import logging as python_logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tests.support.models import keras_models
from tests.support.models.keras_models import (
    KINDS,
    Kind,
    X,
    Y,
    assert_close,
    assert_same_weights,
    state,
    train,
    train_by_hand,
)

pytestmark = keras_models.KERAS_WARNINGS

_FUNCTIONAL = Kind(keras_models.functional, loss="mse")
_new = tf.keras.optimizers
_old = tf.keras.optimizers.legacy


def _fit(
    optimizer: Any,
    count: int,
    method: Any = "sum",
    replicas: int = 1,
    kind: Kind = _FUNCTIONAL,
    per_execution: int = 6,
    epochs: int = 2,
    **options: Any,
) -> tf.keras.Model:
    with keras_models.strategy(replicas).scope():
        model = kind.compiled(optimizer, steps_per_execution=per_execution)
        model.set_gradient_accumulation_options(count, method, **options)
        model.fit(kind.x, kind.y, 2, epochs=epochs, verbose=0, shuffle=False)
    return model


@pytest.mark.parametrize(
    ("optimizer", "count", "method", "replicas"),
    [
        (lambda: _new.SGD(0.1), 2, "sum", 1),
        (lambda: _new.SGD(0.1, momentum=0.9), 3, "mean", 1),
        (lambda: _new.SGD(0.1), 6, "running_mean", 2),
        (lambda: _new.Adam(0.1), 3, "sum", 2),
        (lambda: _new.RMSprop(0.05), 2, "running_mean", 1),
        (lambda: _old.SGD(0.1, momentum=0.9, nesterov=True), 3, "sum", 1),
        (lambda: _old.Adam(0.1), 2, "mean", 4),
        (lambda: _new.Adam(0.1, clipnorm=0.2), 2, "sum", 1),
        (lambda: _new.SGD(0.1, clipvalue=0.1), 2, "sum", 2),
        (lambda: _new.SGD(0.1, global_clipnorm=0.1), 3, "mean", 1),
        (lambda: _new.AdamW(0.1, weight_decay=0.1), 2, "sum", 1),
        (lambda: _new.SGD(0.1, use_ema=True, ema_momentum=0.5), 2, "sum", 1),
        (lambda: _new.SGD(_new.schedules.ExponentialDecay(0.1, 1, 0.5)), 3, "sum", 1),
    ],
    ids=[
        "sgd", "momentum", "sgd_running_mean", "adam", "rmsprop", "legacy_sgd", "legacy_adam",
        "clipnorm", "clipvalue", "global_clipnorm", "weight_decay",
        "ema", "schedule",
    ],
)  # fmt: skip
def test_weights_are_those_of_updates_by_hand(
    optimizer: Callable[[], Any], count: int, method: str, replicas: int
) -> None:
    # Two updates at least, and as many mini-batches for each.
    samples = 2 * 2 * count * replicas * (12 // (2 * count * replicas) or 1)
    rows = Kind(
        _FUNCTIONAL.build, *(np.resize(array, (samples, array.shape[1])) for array in (X, Y))
    )
    steps = samples // 2 // replicas
    found = _fit(optimizer, count, method, replicas, rows, per_execution=steps)
    expected = _FUNCTIONAL.compiled(optimizer)
    train_by_hand(expected, 2, replicas, count, method != "sum", epochs=2, x=rows.x, y=rows.y)
    if getattr(expected.optimizer, "use_ema", False):
        expected.optimizer.finalize_variable_values(expected.trainable_variables)
    assert_same_weights(found, expected)


def test_values_of_metrics_equal_those_of_mini_batches() -> None:
    values = train_by_hand(_FUNCTIONAL.compiled("sgd"), 2, accumulated=3, epochs=2)
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled("sgd", steps_per_execution=6)
        model.set_gradient_accumulation_options(3)
        history = model.fit(X, Y, 2, epochs=2, verbose=0, shuffle=False).history
    assert_close(history, {name: [pair[0] for pair in found] for name, found in values.items()})


def test_one_mini_batch_is_no_accumulation() -> None:
    found = _fit("adam", 1)
    expected = train(
        _FUNCTIONAL,
        optimizer="adam",
        compile_with={"run_eagerly": True, "steps_per_execution": 6},
        data=lambda: {"x": X, "y": Y, "batch_size": 2},
    )
    assert_same_weights(found, expected.model)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": tf.float32, "offload_weight_update_variables": True, "name": "Mine"},
        {
            "dtype": lambda variable: tf.float32,
            "replicated_optimizer_state_sharding": False,
            "use_v2_gradient_accumulation_optimizer": True,
        },
    ],
    ids=["dtype", "dtype_by_variable"],
)
def test_further_arguments_change_no_result(options: dict[str, Any]) -> None:
    expected = _FUNCTIONAL.compiled("sgd")
    train_by_hand(expected, 2, accumulated=2)
    assert_same_weights(_fit("sgd", 2, epochs=1, **options), expected)


@pytest.mark.parametrize("name", ["several_outputs", "subclass", "own_loss"])
def test_all_kinds_of_models_accumulate(name: str) -> None:
    """One accumulated update of all mini-batches, against the sum of their gradients."""
    kind = KINDS[name]
    found = _fit(lambda: _new.SGD(0.1), 6, kind=Kind(kind.build, *_rows(kind, 12), *kind[3:]),
                 epochs=1)  # fmt: skip
    expected = kind.compiled(lambda: _new.SGD(0.1))
    totals: Any = None
    for first in range(0, 12, 2):
        x, y = tf.nest.map_structure(lambda a, i=first: tf.constant(a[i : i + 2]), (kind.x, kind.y))
        with tf.GradientTape() as tape:
            loss = expected.compute_loss(x, y, expected(x, training=True))
        gradients = tape.gradient(loss, expected.trainable_variables)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        totals = gradients if totals is None else [a + b for a, b in zip(totals, gradients)]
    expected.optimizer.apply_gradients(zip(totals, expected.trainable_variables))
    assert_close(found.get_weights(), expected.get_weights())


def _rows(kind: Kind, count: int) -> Any:
    return tf.nest.map_structure(lambda array: array[:count], (kind.x, kind.y))


def test_loss_scaling_counts_updates_not_mini_batches() -> None:
    """The scale goes up with updates, not with mini-batches, and gradients are not scaled."""
    optimizer = lambda: tf.keras.mixed_precision.LossScaleOptimizer(  # noqa: E731
        _new.SGD(0.1), initial_scale=8.0, dynamic_growth_steps=3
    )
    found = _fit(optimizer, 2, per_execution=12, epochs=1)
    expected = _FUNCTIONAL.compiled(lambda: _new.SGD(0.1))
    train_by_hand(expected, 2, accumulated=2)
    assert_close(found.get_weights(), expected.get_weights())
    assert found.optimizer.loss_scale.numpy() == 32.0


def test_mixed_precision_accumulates() -> None:
    optimizer = lambda: tf.keras.mixed_precision.LossScaleOptimizer(  # noqa: E731
        _new.SGD(0.1), dynamic=False, initial_scale=16.0
    )
    expected = _FUNCTIONAL.compiled(lambda: _new.SGD(0.1))
    train_by_hand(expected, 2, accumulated=3)
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        found = _fit(optimizer, 3, dtype=tf.float32, per_execution=12, epochs=1)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert_close(found.get_weights(), expected.get_weights(), 5e-3)


def test_iterations_count_updates() -> None:
    assert _fit("adam", 3, per_execution=12, epochs=2).optimizer.iterations.numpy() == 8


def test_updates_are_counted_from_zero_in_each_execution() -> None:
    found = _fit("sgd", 2, per_execution=2, epochs=1)
    expected = _FUNCTIONAL.compiled("sgd")
    train_by_hand(expected, 2, accumulated=2)
    assert_close(found.get_weights(), expected.get_weights())


@pytest.mark.parametrize("per_execution", [1, 4])
def test_an_execution_must_end_with_an_update(per_execution: int) -> None:
    with pytest.raises(
        RuntimeError, match="is not divisible by `gradient_accumulation_steps_per_replica`"
    ):
        _fit("sgd", 3, per_execution=per_execution)


def test_evaluate_and_predict_do_not_accumulate() -> None:
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled("sgd", steps_per_execution=1)
        model.set_gradient_accumulation_options(5)
        assert np.isfinite(model.evaluate(X, Y, verbose=0, batch_size=8)).all()
        assert model.predict(X, verbose=0, batch_size=8).shape == (24, 2)


def test_options_hold_from_the_next_call_on() -> None:
    options = ((1, "sum"), (2, "sum"), (2, "mean"), (3, "sum"))
    expected = _FUNCTIONAL.compiled("sgd")
    weights = []
    for count, method in options:
        train_by_hand(expected, 2, accumulated=count, mean=method == "mean")
        weights.append(expected.get_weights())
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled("sgd", steps_per_execution=6)
        for (count, method), wanted in zip(options, weights):
            model.set_gradient_accumulation_options(count, method)
            model.fit(X, Y, 2, verbose=0, shuffle=False)
            assert_close(model.get_weights(), wanted)


def test_the_effective_batch_size_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.get_absl_logger().addHandler(caplog.handler)
    level = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    try:
        with caplog.at_level(python_logging.INFO):
            _fit("sgd", 3, replicas=2, epochs=1)
    finally:
        logging.set_verbosity(level)
        logging.get_absl_logger().removeHandler(caplog.handler)
    assert "effective batch size is 12" in caplog.text


class _OwnMinimize(_old.SGD):
    def minimize(self, *args: Any, **kwargs: Any) -> Any:
        return super().minimize(*args, **kwargs)


class _OwnNewMinimize(_new.SGD):
    def minimize(self, *args: Any, **kwargs: Any) -> Any:
        return super().minimize(*args, **kwargs)


@pytest.mark.parametrize("optimizer", [_OwnMinimize, _OwnNewMinimize])
def test_optimizers_with_minimize_of_their_own_are_refused(optimizer: Any) -> None:
    with pytest.raises(ValueError, match="must not override OptimizerV2.minimize"):
        _fit(optimizer, 2)
    # Without accumulation they are called.
    _fit(optimizer, 1, epochs=1)


class _Decaying:
    """The first base of TensorFlow Addons' optimizers with weight decay."""

    def minimize(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("gradients are computed and applied at different times")


class _AdamW(_Decaying, tf.keras.optimizers.legacy.Adam):
    """Has the minimize of its first parent."""


def test_an_optimizer_that_inherits_its_minimize_is_accepted() -> None:
    found = _fit(_AdamW(0.01), 2, epochs=1)
    expected = _fit(tf.keras.optimizers.legacy.Adam(0.01), 2, epochs=1)
    assert_same_weights(found, expected)


@pytest.mark.parametrize("generation", [_old, _new])
def test_optimizer_inside_loss_scaling_must_lack_one(generation: Any) -> None:
    own = _OwnMinimize if generation is _old else _OwnNewMinimize
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="must not override OptimizerV2.minimize"):
            _fit(own, 2)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


_v1 = tf.compat.v1.train


class TestOptimizersOfTensorFlow1:
    """Keras wraps them, and they have no place in its own generations."""

    @pytest.mark.parametrize("replicas", [1, 2])
    @pytest.mark.parametrize("method", ["mean", "running_mean"])
    @pytest.mark.parametrize(
        ("kind", "optimizer"),
        [
            (Kind(keras_models.functional), lambda: _v1.MomentumOptimizer(0.1, 0.9)),
            (Kind(keras_models.sequential), lambda: _v1.AdamOptimizer(0.05)),
            (Kind(keras_models.Inner), lambda: _v1.GradientDescentOptimizer(0.1)),
        ],
        ids=["functional", "sequential", "subclass"],
    )
    def test_update_is_a_step_on_a_larger_batch(
        self, kind: Kind, optimizer: Any, method: str, replicas: int
    ) -> None:
        def fit(batch: int, count: int) -> tf.keras.Model:
            with keras_models.strategy(replicas).scope():
                model = kind.compiled(optimizer, steps_per_execution=count)
                model.set_gradient_accumulation_options(count, method)
                model.fit(X, Y, batch, epochs=2, verbose=0, shuffle=False)
            return model

        # With replicas, batches go to them in turn: each has the rows of every second batch.
        if replicas == 2:
            order = np.arange(24).reshape(2, 3, 2, 2).transpose(0, 2, 1, 3).reshape(-1)
            large = Kind(kind.build, X[order], Y[order])
        else:
            large = kind
        found = fit(2, 3)
        with keras_models.strategy(replicas).scope():
            expected = large.compiled(optimizer)
            expected.fit(large.x, large.y, 6, epochs=2, verbose=0, shuffle=False)
        assert_close(found.get_weights(), expected.get_weights())
        assert found.optimizer.iterations.numpy() == expected.optimizer.iterations.numpy()

    def test_its_own_methods_are_called(self) -> None:
        calls = []

        class Mine(_v1.GradientDescentOptimizer):  # type: ignore[name-defined, misc]
            def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
                calls.append("compute")
                return [(2 * g, v) for g, v in super().compute_gradients(*args, **kwargs)]

            def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
                calls.append("apply")
                return super().apply_gradients(*args, **kwargs)

        found = _fit(lambda: Mine(0.1), 3, epochs=1)
        expected = _FUNCTIONAL.compiled(lambda: _old.SGD(0.2))
        train_by_hand(expected, 2, accumulated=3)
        assert_close(found.get_weights(), expected.get_weights())
        assert calls == ["compute", "apply"] * (len(calls) // 2)

    def test_the_v2_option_is_for_keras_optimizers(self) -> None:
        phrase = "may only be set to True when an OptimizerV2 derived optimizer is used"
        with pytest.raises(ValueError, match=phrase):
            _fit(
                lambda: _v1.GradientDescentOptimizer(0.1),
                2,
                use_v2_gradient_accumulation_optimizer=True,
            )


def test_variables_of_optimizer_are_those_of_stock_keras() -> None:
    found = _fit("adam", 2, epochs=1).optimizer
    expected = train(
        _FUNCTIONAL, optimizer="adam", compile_with={"run_eagerly": True}
    ).model.optimizer
    assert [array.shape for array in state(found)] == [array.shape for array in state(expected)]
