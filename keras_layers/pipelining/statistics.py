"""Keeps moving statistics of normalization layers unchanged in pipelines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.keras_layers import model_state
from tensorflow_ipu.versions import keras2

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

batch_normalization = keras2.module("layers.normalization.batch_normalization")


@contextlib.contextmanager
def kept(model: IPUModel) -> Iterator[None]:
    """Lets the layers of a model not update moving means and variances.

    In a pipeline a mini-batch is in each stage forward and backward at different times, and only
    the optimizer changes variables.

    Args:
        model: a Keras model.

    Yields:
        Nothing.
    """
    layers = [layer for layer in model._flatten_layers() if _has_statistics(layer)]
    moving = [layer.name for layer in layers if 0 < layer.momentum < 1]
    if moving and not model_state.of(model).warned:
        model_state.of(model).warned = True
        tf.compat.v1.logging.warn(
            "The moving statistics for keras.BatchNormalization layers in pipelined models are not "
            "properly updated when training: those of %s in the model %s stay as they are, and "
            "evaluate() and predict() use the ones that the model started with.",
            ", ".join(moving),
            model.name,
        )
    for layer in layers:
        # Hides the method. Not an attribute as Keras knows them, so nothing tracks it.
        vars(layer)["add_update"] = _ignore
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["add_update"]


def _has_statistics(layer: Any) -> bool:
    return isinstance(layer, batch_normalization.BatchNormalizationBase) and layer.trainable


def _ignore(*_: Any, **__: Any) -> None:
    """Takes the place of `Layer.add_update`."""
