"""Helpers that the layers of `tensorflow.contrib.layers` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compat.replacements.variables import model_variable

_v1 = tf.compat.v1

#: Initializer of biases.
ZEROS = tf.zeros_initializer()


def collected(collections: Any, scope: str, outputs: tf.Tensor) -> tf.Tensor:
    """Adds results to collections.

    Args:
        collections: names of the collections, or none.
        scope: of the layer.
        outputs: the results.

    Returns:
        The results.
    """
    if collections:
        _v1.add_to_collections(collections, outputs)
    return outputs


def weights_of(name: str, shape: Any, dtype: Any, settings: Mapping[str, Any], kind: str) -> Any:
    """Creates a variable of a layer.

    Args:
        name: of the variable.
        shape: of the variable.
        dtype: of the variable.
        settings: the arguments of the layer.
        kind: prefix of the arguments for this variable, such as `biases` in `biases_initializer`.
    """
    collections = settings.get("variables_collections")
    if isinstance(collections, Mapping):
        collections = collections.get(name)
    return model_variable(
        name,
        shape,
        collections,
        dtype=dtype,
        initializer=settings.get(f"{kind}_initializer"),
        regularizer=settings.get(f"{kind}_regularizer"),
        trainable=settings.get("trainable", True),
    )


def finished(
    outputs: tf.Tensor, settings: Mapping[str, Any], channels: int, data_format: str | None = None
) -> tf.Tensor:
    """Normalizes, or adds biases, and applies the activation.

    Args:
        outputs: the linear result of the layer.
        settings: the arguments of the layer.
        channels: number of biases.
        data_format: position of the channels; last if not given.
    """
    normalizer = settings["normalizer_fn"]
    if normalizer is not None:
        outputs = normalizer(outputs, **(settings["normalizer_params"] or {}))
    elif settings["biases_initializer"] is not None:
        dtype = outputs.dtype.base_dtype
        biases = weights_of("biases", [channels], dtype, settings, "biases")
        outputs = _v1.nn.bias_add(outputs, biases, data_format=data_format)
    activation = settings["activation_fn"]
    return activation(outputs) if activation is not None else outputs


def checked_format(data_format: str | None) -> str:
    """Returns a layout of images; channels last if none is given.

    Args:
        data_format: `NHWC` or `NCHW`.

    Raises:
        ValueError: it is another.
    """
    if data_format not in (None, "NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC. Received: " + str(data_format))
    return data_format or "NHWC"
