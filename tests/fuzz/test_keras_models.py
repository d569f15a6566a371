"""Replicas that train a random Keras model on different data keep weights of equal bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.keras_layers.optimizers import GradientAccumulationOptimizer
from tests.fuzz import support
from tests.support.models import keras_models

pytestmark = keras_models.KERAS_WARNINGS

BATCH, STEPS = 2, 4
LENGTH, SIZE = 5, 6
_layers = tf.keras.layers


def _shared(x: tf.Tensor) -> tf.Tensor:
    """Applies one layer twice: its gradient is a sum."""
    layer = _layers.Dense(SIZE, "tanh")
    return layer(layer(x) + x)


# Sums of terms that are ready in any order are in most of them.
LAYERS = {
    "attention": lambda x: x + _layers.MultiHeadAttention(2, 3)(x, x),
    "batch norm": lambda x: _layers.BatchNormalization()(x),
    "branches": lambda x: x + _layers.Dense(SIZE)(x) + _layers.Dense(SIZE, "relu")(x),
    "convolution": lambda x: _layers.Conv1D(SIZE, 3, padding="same", activation="gelu")(x),
    "dropout": lambda x: _layers.Dropout(0.3)(x),
    "layer norm": lambda x: _layers.LayerNormalization()(x),
    "recurrence": lambda x: x + _layers.GRU(SIZE, return_sequences=True)(x),
    "shared": _shared,
}
OPTIMIZERS = {
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
    "legacy momentum": lambda: tf.keras.optimizers.legacy.SGD(0.01, 0.9),
    "rmsprop": lambda: tf.keras.optimizers.RMSprop(0.01),
}


class Case(NamedTuple):
    """A model, an optimizer, and the replicas and steps of an update."""

    layers: list[str]
    optimizer: str
    replicas: int
    accumulated: int


CASES = strategies.builds(
    Case,
    strategies.lists(strategies.sampled_from(sorted(LAYERS)), min_size=1, max_size=4),
    strategies.sampled_from(sorted(OPTIMIZERS)),
    strategies.sampled_from([2, 4]),
    strategies.sampled_from([1, 2]),
)


class Watched(tf.keras.Model):
    """Sends the trainable weights of each replica to the host after each step."""

    queue: IPUOutfeedQueue

    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        self.queue.enqueue([weight.read_value() for weight in self.trainable_variables])
        return logs


def _check(case: Case) -> None:
    with keras_models.strategy(case.replicas).scope():
        keras_models.seed()
        x = inputs = tf.keras.Input((LENGTH, SIZE), BATCH)
        for name in case.layers:
            x = LAYERS[name](x)
        model = Watched(inputs, _layers.Dense(2)(x))
        model.set_custom_train_step()
        model.queue = IPUOutfeedQueue()
        optimizer = OPTIMIZERS[case.optimizer]()
        if case.accumulated > 1:
            optimizer = GradientAccumulationOptimizer(optimizer, case.accumulated)
        model.compile(optimizer, "mse", steps_per_execution=STEPS)
        start = [weight.numpy() for weight in model.trainable_variables]
        rows = BATCH * STEPS * case.replicas
        data = keras_models.array(rows, LENGTH, SIZE), keras_models.array(rows, LENGTH, 2, seed=1)
        model.fit(keras_models.dataset(*data, batch_size=BATCH), verbose=0)
    moved = False
    for values, first in zip(model.queue.dequeue(), start):
        of_replicas = values.numpy()
        assert of_replicas.shape == (STEPS, case.replicas, *first.shape)
        np.testing.assert_array_equal(of_replicas, of_replicas[:, :1].repeat(case.replicas, 1))
        moved = moved or not np.array_equal(of_replicas[-1, 0], first)
    assert moved  # not each weight: scales before another batch norm have no gradient


def test_replicas_keep_weights_of_equal_bits(request: pytest.FixtureRequest) -> None:
    support.run(request, "Keras models", CASES, _check)
