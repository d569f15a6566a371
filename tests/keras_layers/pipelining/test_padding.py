"""Pipelines with data that are no multiple of the batch, against stock Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tests.support.models import keras_models, keras_pipelines
from tests.support.models.keras_pipelines import BATCH, MODELS, OUTPUTS, dense, no_stage

layers = tf.keras.layers
DATA = keras_pipelines.data(12)


def small(stage: Any = PipelineStage) -> tf.keras.Model:
    """Two stages, several inputs, and a loss of weights."""
    first, second = layers.Input((4,), name="a"), layers.Input((4,), name="b")
    with stage(0):
        hidden = dense(6, 1, kernel_regularizer="l2")(first)
    with stage(1):
        outputs = dense(OUTPUTS, 3)(layers.Concatenate()([hidden, second]))
    return tf.keras.Model({"a": first, "b": second}, outputs)


def data(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns N rows of data for the small model."""
    x, y = DATA
    return {"a": x[:rows], "b": -x[:rows]}, y[:rows]


def compiled(model: tf.keras.Model, rate: float = 0.05, **arguments: Any) -> tf.keras.Model:
    """Compiles a model."""
    model.compile(tf.keras.optimizers.SGD(rate, momentum=0.9), "mse", metrics=["mae"], **arguments)
    return model


@pytest.mark.parametrize("replicas", [1, 2])
def test_padded_predictions_and_evaluations_equal_stock_keras(replicas: int) -> None:
    stock = compiled(small(no_stage), run_eagerly=True)
    with keras_pipelines.strategy(2 * replicas).scope():
        model = compiled(small(), steps_per_execution=6)
        model.set_replication_options("MEAN")
    for rows in (1, 5, 13):
        x, y = data(rows)
        with model.distribute_strategy.scope():
            predicted = model.predict(x, BATCH, verbose=0)
            found = model.evaluate(x, y, BATCH, verbose=0)
        keras_models.assert_close(predicted, stock.predict(x, verbose=0), 1e-6)
        keras_models.assert_close(found, stock.evaluate(x, y, BATCH, verbose=0), 1e-6)


def test_padding_fills_executions() -> None:
    """More batches than one execution takes, in three stages."""
    x, y = DATA[0][:21], DATA[1][:21]
    stock = compiled(MODELS["sequential"](no_stage), run_eagerly=True)
    expected = stock.evaluate(x, y, BATCH, verbose=0)
    predicted = stock.predict(x, verbose=0)
    with keras_pipelines.strategy(4).scope():
        model = compiled(MODELS["sequential"](), steps_per_execution=6)
        keras_models.assert_close(model.evaluate(x, y, BATCH, verbose=0), expected, 1e-6)
        keras_models.assert_close(model.predict(x, BATCH, verbose=0), predicted, 1e-6)


def test_accumulated_outfeed_is_as_of_the_last_data() -> None:
    x, y = data(5)
    stock = compiled(small(no_stage), run_eagerly=True)
    expected = stock.evaluate(x, y, BATCH, verbose=0)
    with keras_pipelines.strategy(2).scope():
        model = compiled(small(), steps_per_execution=6)
        model.set_pipelining_options(accumulate_outfeed=True)
        found = model.evaluate(x, y, BATCH, verbose=0)
    keras_models.assert_close(found, expected, 1e-6)


@pytest.mark.parametrize(
    ("replicas", "rows", "method"), [(1, 13, "sum"), (1, 3, "running_mean"), (2, 21, "mean")]
)
def test_padded_training_equals_stock_keras(replicas: int, rows: int, method: str) -> None:
    x, y = data(rows)
    factor = 4 * replicas if method == "sum" else replicas
    stock = compiled(small(no_stage), 0.05 * factor, run_eagerly=True)
    fit = {"epochs": 2, "verbose": 0, "shuffle": False}
    expected = stock.fit(x, y, 4 * BATCH * replicas, **fit).history
    with keras_pipelines.strategy(2 * replicas).scope():
        model = compiled(small(), steps_per_execution=4)
        model.set_pipelining_options(4, gradient_accumulation_reduction_method=method)
        model.set_partial_batch_options(pad_in_fit=True)
        model.set_replication_options("MEAN")
        found = model.fit(x, y, BATCH, **fit).history
    keras_models.assert_close(found, expected, 2e-6)
    keras_models.assert_close(model.get_weights(), stock.get_weights(), 1e-6)


def adds_a_metric(stage: Any = PipelineStage) -> tf.keras.Model:
    """A layer that adds a metric of a batch."""

    class Adding(layers.Layer):
        def call(self, inputs: tf.Tensor) -> tf.Tensor:
            self.add_metric(tf.reduce_max(inputs), name="largest")
            return inputs

    with stage(0):
        first = [dense(6, 1), Adding(name="adds")]
    with stage(1):
        second = [dense(OUTPUTS, 2)]
    return tf.keras.Sequential([*first, *second])


@pytest.mark.parametrize(
    ("make", "named"),
    [(MODELS["functional"], "c"), (MODELS["subclass"], "subclass"), (adds_a_metric, "adds")],
    ids=["activity_regularizer", "add_loss", "add_metric"],
)
def test_layers_adding_losses_are_refused_with_padding(
    make: Any, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    x, y = DATA[0][:7], DATA[1][:7]
    with keras_pipelines.strategy(2).scope():
        model = compiled(make(), steps_per_execution=4)
        with pytest.raises(ValueError, match=f"partial batch.* in what {named} adds"):
            model.evaluate(x, y, BATCH, verbose=0)
        assert model.predict(x, BATCH, verbose=0).shape == (7, OUTPUTS)
        model.set_pipelining_options(4)
        model.set_partial_batch_options(pad_in_fit=True)
        model.fit(x, y, BATCH, verbose=0)
    (warning,) = (text for text in warnings if "pads partial batches" in text)
    assert f" {named} of the model " in warning
