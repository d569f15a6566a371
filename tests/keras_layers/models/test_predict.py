"""Prediction on the IPU, against `predict` of stock Keras, in the order of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import keras_models
from tests.support.models.keras_models import (
    BATCH,
    KINDS,
    MLP,
    Kind,
    Recorder,
    X,
    Y,
    assert_close,
    dataset,
)

pytestmark = keras_models.KERAS_WARNINGS

_layers = tf.keras.layers


def _both(
    kind: Kind, replicas: int = 1, compile_with: dict[str, Any] | None = None, **arguments: Any
) -> Any:
    """Predicts with stock Keras and on the IPU, checks that both give the same; returns that."""
    arguments = {"x": kind.x, "batch_size": BATCH, "verbose": 0, **arguments}
    expected = kind.compiled(run_eagerly=True).predict(**arguments)
    with keras_models.strategy(replicas).scope():
        found = kind.compiled(**(compile_with or {})).predict(**arguments)
    tf.nest.assert_same_structure(found, expected)
    assert {type(array) for array in tf.nest.flatten(found)} == {np.ndarray}
    assert [array.dtype for array in tf.nest.flatten(found)] == [
        array.dtype for array in tf.nest.flatten(expected)
    ]
    assert_close(found, expected)
    return found


@pytest.mark.parametrize("name", ["sequential", "several_outputs", "subclass", "convolution"])
def test_all_kinds_of_models_predict_as_stock_keras(name: str) -> None:
    _both(KINDS[name], compile_with={"steps_per_execution": 3})


@pytest.mark.parametrize(("replicas", "per_execution"), [(1, 3), (2, 1), (2, 3), (4, 3)])
def test_outputs_are_in_the_order_of_the_data(replicas: int, per_execution: int) -> None:
    kind = Kind(KINDS["several_outputs"].build, {"a": X, "b": Y}, loss=None)
    found = _both(
        kind, replicas, {"steps_per_execution": per_execution, "metrics": None}, batch_size=2
    )
    assert found["value"].shape == (24, 2)


def _of_structure(make: Callable[[Any], Any]) -> Callable[[], tf.keras.Model]:
    class Model(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = _layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return make(self.dense(inputs))

    return Model


@pytest.mark.parametrize(
    "make",
    [
        lambda y: (y, y + 1.0),
        lambda y: [y, (y, {"b": 2.0 * y, "a": y})],
        lambda y: {"b": y, "a": (2.0 * y, y)},
        lambda y: [y],
        lambda y: tf.reduce_sum(y, -1),
        lambda y: tf.stack([y, y], 1),
        lambda y: tf.argmax(y, -1, output_type=tf.int32),
        lambda y: y > 0.0,
    ],
    ids=["tuple", "nested_list", "dict", "list_of_one", "one_value", "matrix", "integers", "bool"],
)
def test_outputs_of_any_structure_are_returned(make: Callable[[Any], Any]) -> None:
    kind = Kind(_of_structure(make), loss=None, metrics=None)
    _both(kind, 2, {"steps_per_execution": 3})


def test_a_model_that_is_not_compiled() -> None:
    build = KINDS["functional"].build
    keras_models.seed()
    stock = build()
    with keras_models.strategy().scope():
        keras_models.seed()
        found = build().predict(X, BATCH, verbose=0)
    assert_close(found, stock.predict(X, BATCH, verbose=0))


@pytest.mark.parametrize("steps", [None, 2])
def test_datasets_targets_are_ignored(steps: int | None) -> None:
    found = _both(MLP, x=dataset(), batch_size=None, steps=steps)
    assert len(found) == (24 if steps is None else 2 * BATCH)


def test_callbacks_get_the_outputs_of_an_execution() -> None:
    recorders = [Recorder(), Recorder()]
    MLP.compiled(steps_per_execution=2, run_eagerly=True).predict(
        X, BATCH, verbose=0, callbacks=[recorders[0]]
    )
    with keras_models.strategy().scope():
        MLP.compiled(steps_per_execution=2).predict(X, BATCH, verbose=0, callbacks=[recorders[1]])
    assert [call[:-1] for call in recorders[1].calls] == [call[:-1] for call in recorders[0].calls]
    for mine, theirs in zip(recorders[1].calls, recorders[0].calls):
        assert_close(mine[-1], theirs[-1])
    assert recorders[1].logs("on_predict_batch_end")[0]["outputs"].shape == (2 * BATCH, 2)


def test_a_predict_step_of_the_model_is_called() -> None:
    class Own(keras_models.FunctionalSubclass):
        def predict_step(self, data: Any) -> Any:
            return {"scaled": 2.0 * self(data[0], training=False), "given": data[0]}

    _both(Kind(Own), x=dataset(), batch_size=None)


def test_layers_with_noise_do_nothing() -> None:
    def build() -> tf.keras.Model:
        return tf.keras.Sequential(
            [
                _layers.Input((3,)),
                _layers.Dropout(0.5),
                _layers.GaussianNoise(1.0),
                _layers.Dense(2),
            ]
        )

    _both(Kind(build))


def test_the_weights_in_force_are_used() -> None:
    with keras_models.strategy().scope():
        model = KINDS["functional"].compiled()
        before = model.predict(X, BATCH, verbose=0)
        model.set_weights([2.0 * weight for weight in model.get_weights()])
        after = model.predict(X, BATCH, verbose=0)
        compiled = keras_models.compilations()
    stock = KINDS["functional"].compiled(run_eagerly=True)
    stock.set_weights([2.0 * weight for weight in stock.get_weights()])
    assert_close(after, stock.predict(X, BATCH, verbose=0))
    assert not np.allclose(before, after)
    assert compiled == 1
