"""Replicas of a model: sums of gradients, metrics of each, batches shared out in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.keras_layers.models import execution as replicas_lib
from tensorflow_ipu.keras_layers.models.model_options import ReplicatedMetricReductionMethod
from tests.support.models import keras_models
from tests.support.models.keras_models import (
    BATCH,
    KINDS,
    Kind,
    Recorder,
    X,
    Y,
    assert_close,
    dataset,
    train_by_hand,
)

pytestmark = keras_models.KERAS_WARNINGS

_FUNCTIONAL = Kind(keras_models.functional, loss="mse")
_METHODS = ReplicatedMetricReductionMethod
_OPTIMIZERS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.1),
    "adam": lambda: tf.keras.optimizers.Adam(0.05, clipvalue=0.3),
    "legacy_rmsprop": lambda: tf.keras.optimizers.legacy.RMSprop(0.05),
}


def _fit(replicas: int, optimizer: Any = "sgd", per_execution: int = 1, **fit: Any) -> Any:
    """Trains on some replicas; returns model, history and recorder."""
    recorder = Recorder()
    with keras_models.strategy(replicas).scope():
        model = _FUNCTIONAL.compiled(optimizer, steps_per_execution=per_execution)
        if "method" in fit:
            model.set_replication_options(fit.pop("method"))
        arguments = {"x": X, "y": Y, "batch_size": 2, "verbose": 0, "shuffle": False, **fit}
        history = model.fit(**arguments, callbacks=[recorder])
    return model, history.history, recorder


@pytest.mark.parametrize(
    ("replicas", "name", "per_execution"),
    [(2, "sgd", 1), (2, "adam", 3), (2, "legacy_rmsprop", 6), (4, "sgd", 3), (4, "adam", 1)],
)
def test_gradients_of_replicas_are_summed(replicas: int, name: str, per_execution: int) -> None:
    expected = _FUNCTIONAL.compiled(_OPTIMIZERS[name])
    values = train_by_hand(expected, batch_size=2, replicas=replicas, epochs=2)
    found, history, _ = _fit(replicas, _OPTIMIZERS[name], per_execution, epochs=2, method="LIST")
    assert_close(found.get_weights(), expected.get_weights())
    assert_close(history, values)
    # The host sees one copy, the same on all replicas.
    assert len(found.weights) == 4


@pytest.mark.parametrize("method", _METHODS)
def test_values_of_replicas_become_one(method: ReplicatedMetricReductionMethod) -> None:
    expected = _FUNCTIONAL.compiled("sgd")
    values = train_by_hand(expected, batch_size=2, replicas=2, epochs=2)
    reduce: Any = {
        _METHODS.NONE: lambda pair: pair[-1],
        _METHODS.LIST: list,
        _METHODS.SUM: np.sum,
        _METHODS.MEAN: np.mean,
    }[method]
    wanted = {name: [reduce(pair) for pair in pairs] for name, pairs in values.items()}
    _, history, recorder = _fit(2, "sgd", 3, epochs=2, method=method)
    assert_close(history, wanted)
    kind = list if method is _METHODS.LIST else float
    for hook in ("on_train_batch_end", "on_epoch_end", "on_train_end"):
        for logs in recorder.logs(hook):
            assert {type(value) for value in logs.values()} == {kind}


def test_batches_are_counted_for_each_replica() -> None:
    _, _, recorder = _fit(4, per_execution=3)
    assert recorder.names("on_train_batch_begin") == [("on_train_batch_begin", 0)]
    assert recorder.names("on_train_batch_end") == [("on_train_batch_end", 2)]
    assert recorder.calls[0][0] == "on_train_begin"


@pytest.mark.parametrize("data", ["memory", "dataset"])
def test_indivisible_batches_are_dropped_each_epoch(data: str) -> None:
    x, y = X[:14], Y[:14]  # 7 batches, of which 6 are used
    fit: dict[str, Any] = {"x": x, "y": y}
    if data == "dataset":
        fit = {"x": dataset(x, y, batch_size=2), "y": None, "batch_size": None}
    found, _, _ = _fit(2, "sgd", epochs=3, **fit)
    expected = _FUNCTIONAL.compiled("sgd")
    train_by_hand(expected, batch_size=2, replicas=2, epochs=3, samples=12)
    assert_close(found.get_weights(), expected.get_weights())


def test_steps_per_epoch_are_batches_of_all_replicas() -> None:
    # 3 epochs of 4 batches of the endless data, which are 2 steps.
    made = dataset(batch_size=2, epochs=None)
    found, _, recorder = _fit(
        2, "sgd", x=made, y=None, batch_size=None, steps_per_epoch=5, epochs=3
    )
    expected = _FUNCTIONAL.compiled("sgd")
    train_by_hand(expected, batch_size=2, replicas=2, epochs=1)
    assert_close(found.get_weights(), expected.get_weights())
    assert len(recorder.names("on_train_batch_end")) == 6


def test_weights_from_the_host_reach_all_replicas() -> None:
    """Set by a callback, and between calls."""

    def halve(model: tf.keras.Model) -> None:
        model.set_weights([0.5 * weight for weight in model.get_weights()])

    with keras_models.strategy(2).scope():
        model = _FUNCTIONAL.compiled("sgd", steps_per_execution=3)
        halving = tf.keras.callbacks.LambdaCallback(on_batch_end=lambda *_, **__: halve(model))
        for _ in range(2):
            model.fit(X, Y, 2, verbose=0, shuffle=False, callbacks=[halving])
            halve(model)
        rows = model.predict(X, 2, verbose=0)
    expected = _FUNCTIONAL.compiled("sgd")
    for _ in range(2):
        for first in (0, 12):
            train_by_hand(expected, 2, 2, x=X[first : first + 12], y=Y[first : first + 12])
            halve(expected)
        halve(expected)
    assert_close(model.get_weights(), expected.get_weights())
    assert_close(rows, expected.predict(X, verbose=0))


@pytest.mark.parametrize("method", _METHODS)
def test_replicas_evaluate_their_own_batches(method: ReplicatedMetricReductionMethod) -> None:
    stock = _FUNCTIONAL.compiled(run_eagerly=True)
    batches = np.arange(24).reshape(6, 2, 2)  # step, replica, sample
    each = [
        stock.evaluate(X[batches[:, r].ravel()], Y[batches[:, r].ravel()], verbose=0)
        for r in range(2)
    ]
    with keras_models.strategy(2).scope():
        model = _FUNCTIONAL.compiled(steps_per_execution=2)
        model.set_replication_options(method.name.lower())
        found = model.evaluate(X, Y, 2, verbose=0)
    wanted = {
        _METHODS.NONE: each[1],
        _METHODS.LIST: np.transpose(each).tolist(),
        _METHODS.SUM: np.sum(each, 0).tolist(),
        _METHODS.MEAN: np.mean(each, 0).tolist(),
    }[method]
    assert_close(found, wanted)


def test_validation_alternates_with_training() -> None:
    _, history, _ = _fit(2, epochs=3, validation_data=(X[:8], Y[:8]), method="mean")
    model = _FUNCTIONAL.compiled("sgd")
    losses = []
    for _ in range(3):
        train_by_hand(model, batch_size=2, replicas=2)
        losses.append(model.evaluate(X[:8], Y[:8], verbose=0)[0])
    assert_close(history["val_loss"], losses)


def test_statistics_of_a_batch_normalization_stay_usable() -> None:
    with keras_models.strategy(2).scope():
        model = KINDS["subclass"].compiled()
        model.fit(X, Y, BATCH, epochs=2, verbose=0)
        assert np.isfinite(model.evaluate(X, Y, BATCH, verbose=0)).all()
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_the_progress_bar_takes_lists(capsys: pytest.CaptureFixture[str]) -> None:
    with keras_models.strategy(2).scope():
        model = _FUNCTIONAL.compiled("sgd")
        model.set_replication_options("LIST")
        model.fit(X, Y, 2, verbose=1)
    assert "6/6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (_METHODS.NONE, [5.0, 6.0]),
        (_METHODS.LIST, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        (_METHODS.SUM, [9.0, 12.0]),
        (_METHODS.MEAN, [3.0, 4.0]),
    ],
)
def test_values_of_replicas_are_reduced_by_the_method(
    method: ReplicatedMetricReductionMethod, expected: Any
) -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(replicas_lib.reduced_over_replicas(values, method), expected)


@pytest.mark.parametrize(
    ("available", "ipus", "factor"),
    [(1, 1, 1), (4, 1, 4), (4, 2, 2), (4, 3, 1), (16, 3, 4), (8, 8, 1)],
)
def test_a_model_has_as_many_replicas_as_fit(available: int, ipus: int, factor: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = available
    config.configure_ipu_system()
    assert replicas_lib.replication_factor(0, ipus) == factor


def test_model_may_need_more_ipus_than_there_are() -> None:
    keras_models.strategy(2)
    with pytest.raises(ValueError, match="requires a multiple of 4 IPUs.* to 4, 8 or 16"):
        replicas_lib.replication_factor(0, 3)
    with pytest.raises(ValueError, match="its stages name is 99. The machine has 16 IPUs"):
        replicas_lib.replication_factor(0, 100)
