"""Evaluation on the IPU, against `evaluate` of stock Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import keras_models
from tests.support.models.keras_models import (
    BATCH,
    KINDS,
    MLP,
    SAMPLES,
    Kind,
    Recorder,
    X,
    Y,
    assert_close,
    dataset,
)

pytestmark = keras_models.KERAS_WARNINGS

_FUNCTIONAL = KINDS["functional"]


def _both(kind: Kind, compile_with: dict[str, Any] | None = None, **arguments: Any) -> list[Any]:
    """Evaluates with stock Keras and on one IPU, and returns both results."""
    compiled = compile_with or {}
    arguments = {"x": kind.x, "y": kind.y, "batch_size": BATCH, "verbose": 0, **arguments}
    expected = kind.compiled(**{**compiled, "run_eagerly": True}).evaluate(**arguments)
    with keras_models.strategy().scope():
        found = kind.compiled(**compiled).evaluate(**arguments)
    assert type(found) is type(expected)
    assert_close(found, expected)
    return [found, expected]


@pytest.mark.parametrize("name", ["several_outputs", "subclass", "own_loss", "convolution"])
def test_all_kinds_of_models_evaluate_as_stock_keras(name: str) -> None:
    found, expected = _both(KINDS[name], {"steps_per_execution": 3}, return_dict=True)
    assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("compiled", "arguments"),
    [
        ({}, {}),
        ({"metrics": ["mae", "mse"]}, {}),
        ({"weighted_metrics": ["mae"]}, {"sample_weight": np.linspace(0, 1, SAMPLES)}),
        ({"steps_per_execution": 2}, {"steps": 4}),
        ({"loss": None, "metrics": ["mae"]}, {}),
    ],
    ids=["loss_only", "metrics", "sample_weight", "steps", "no_loss"],
)
def test_results_are_those_of_stock_keras(
    compiled: dict[str, Any], arguments: dict[str, Any]
) -> None:
    _both(_FUNCTIONAL, compiled, **arguments)


def test_callbacks_see_the_batches_of_a_dataset() -> None:
    recorders = [Recorder(), Recorder()]
    expected = MLP.compiled(steps_per_execution=2, run_eagerly=True)
    expected.evaluate(dataset(), verbose=0, callbacks=[recorders[0]])
    with keras_models.strategy().scope():
        model = MLP.compiled(steps_per_execution=2)
        # The model is built by this.
        model.evaluate(dataset(), verbose=0, callbacks=[recorders[1]])
        assert_close(model.get_weights(), expected.get_weights(), 0)
    assert [call[:-1] for call in recorders[1].calls] == [call[:-1] for call in recorders[0].calls]
    assert recorders[1].names("on_test_batch_end") == [
        ("on_test_batch_end", step) for step in (1, 3, 5)
    ]
    for mine, theirs in zip(recorders[1].calls, recorders[0].calls):
        assert_close(mine[-1], theirs[-1])


def test_metrics_start_from_zero_in_each_call() -> None:
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled(metrics=["mae"])
        first = model.evaluate(X, Y, BATCH, verbose=0)
        model.fit(X, Y, BATCH, verbose=0)
        model.set_weights(_FUNCTIONAL.compiled().get_weights())
        assert model.evaluate(X, Y, BATCH, verbose=0) == first


def test_a_test_step_of_the_model_is_called() -> None:
    class Own(keras_models.FunctionalSubclass):
        def test_step(self, data: Any) -> Any:
            x, y = data
            error = y - self(x, training=False)
            return {"largest": tf.reduce_max(tf.abs(error)), "count": tf.shape(error)[0]}

    found, _ = _both(Kind(Own), {"steps_per_execution": 2}, return_dict=True)
    assert found["count"] == BATCH and type(found["count"]) is int


@pytest.mark.parametrize("result", ["a tensor", "an empty dict"])
def test_a_test_step_must_return_logs(result: str) -> None:
    class Own(keras_models.FunctionalSubclass):
        def test_step(self, data: Any) -> Any:
            return tf.reduce_sum(data[0]) if result == "a tensor" else {}

    with keras_models.strategy().scope():
        model = Kind(Own).compiled()
        with pytest.raises(ValueError, match="test_step|no tensors"):
            model.evaluate(X, Y, BATCH, verbose=0)


def test_validation_calls_the_users_evaluate() -> None:
    calls: list[int] = []

    class Own(keras_models.FunctionalSubclass):
        def evaluate(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(len(calls))
            return super().evaluate(*args, **kwargs)

    keras_models.train_both(Kind(Own), validation_data=(X, Y))
    assert calls == [0, 1, 2, 3]


def test_unknown_arguments_are_refused() -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled()
        with pytest.raises(TypeError, match="Invalid keyword arguments: \\['other'\\]"):
            model.evaluate(X, Y, other=1)
