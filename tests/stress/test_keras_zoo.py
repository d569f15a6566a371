"""Keras models on several replicas train to the weights of one replica, each time."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.stress import keras_zoo
from tests.support.models import keras_models

BATCH = 2
STEPS = 16
# Sums of equal addends are exact, but a kernel on more threads adds in another order.
TOLERANCE = 1e-5

pytestmark = keras_models.KERAS_WARNINGS


def _batches(entry: keras_zoo.Entry, replicas: int) -> tf.data.Dataset:
    """Returns each batch as many times as there are replicas: all of them train on the same."""
    inputs, labels = (
        np.repeat(array.reshape(STEPS, BATCH, *array.shape[1:]), replicas, axis=0)
        for array in keras_zoo.data(entry, BATCH * STEPS)
    )
    return tf.data.Dataset.from_tensor_slices((inputs, labels))


def _fits(
    entry: keras_zoo.Entry, replicas: int, fits: int, start: list[np.ndarray] | None
) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """Trains a model from the same weights several times.

    Args:
        entry: the model.
        replicas: how many.
        fits: how many times.
        start: the weights to start from; None: those that the model is made with.

    Returns:
        The weights at the start, and those at the end of each training.
    """
    with keras_models.strategy(replicas).scope():
        keras_models.seed()
        model = entry.build()
        model.compile(
            tf.keras.optimizers.SGD(0.01 / replicas),  # gradients are summed
            "sparse_categorical_crossentropy",
            steps_per_execution=STEPS,
        )
        start = start or model.get_weights()
        ends = []
        for _ in range(fits):
            model.set_weights(start)
            model.fit(_batches(entry, replicas), verbose=0)
            ends.append(model.get_weights())
    return start, ends


_ENTRIES = {**keras_zoo.SMALL, **keras_zoo.LARGE}


@functools.cache
def _reference(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the weights of one replica: at the start, and at the end."""
    start, (end,) = _fits(_ENTRIES[name], 1, 1, None)
    return start, end


def _check(name: str, replicas: int, fits: int) -> None:
    start, reference = _reference(name)
    _, ends = _fits(_ENTRIES[name], replicas, fits, start)
    for end in ends:
        for weight, expected in zip(end, reference):
            np.testing.assert_allclose(weight, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("name", keras_zoo.SMALL)
def test_replicas_train_small_networks_to_weights_of_one(
    name: str, replicas: int, request: pytest.FixtureRequest
) -> None:
    _check(name, replicas, request.config.getoption("--stress-fits"))


@pytest.mark.large
@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("name", keras_zoo.LARGE)
def test_replicas_train_whole_networks_to_weights_of_one(
    name: str, replicas: int, request: pytest.FixtureRequest
) -> None:
    _check(name, replicas, request.config.getoption("--stress-fits"))
