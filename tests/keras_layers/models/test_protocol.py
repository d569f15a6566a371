"""Models have the members of `IPUModel`. Keras has no types, so mypy cannot tell."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.models.protocol import IPUModel, KerasModel
from tests.support.models import keras_models
from tests.support.models.keras_models import BATCH, X, Y


@pytest.mark.parametrize("name", ["sequential", "functional", "subclass"])
def test_model_made_in_scope_can_run(name: str) -> None:
    with keras_models.strategy().scope():
        model = keras_models.KINDS[name].compiled()
        model.fit(X[:BATCH], Y[:BATCH], BATCH, verbose=0)
    assert isinstance(model, IPUModel)


def test_a_model_of_keras_is_none_of_ours() -> None:
    model = keras_models.KINDS["functional"].compiled()
    model.history = tf.keras.callbacks.History()
    assert isinstance(model, KerasModel)
    assert not isinstance(model, IPUModel)
