"""Keras models of the kinds that people train, for small inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

CLASSES = 4
_layers = tf.keras.layers


class Entry(NamedTuple):
    """A model, and the shape and kind of its input: floats, or tokens below `vocabulary`."""

    build: Callable[[], tf.keras.Model]
    shape: tuple[int, ...]
    vocabulary: int = 0


def _application(name: str, size: int = 32, **options: Any) -> Entry:
    def build() -> tf.keras.Model:
        make = getattr(tf.keras.applications, name)
        base = make(
            include_top=False,
            weights=None,
            input_shape=(size, size, 3),
            pooling="avg",
            **options,
        )
        outputs = _layers.Dense(CLASSES, activation="softmax")(base.output)
        return tf.keras.Model(base.input, outputs)

    return Entry(build, (size, size, 3))


def _convolutional_block(x: tf.Tensor) -> tf.Tensor:
    shortcut = _layers.Conv2D(8, 1)(x)
    y = _layers.ReLU()(_layers.BatchNormalization()(_layers.Conv2D(8, 3, padding="same")(x)))
    y = _layers.Conv2D(8, 3, padding="same")(y)
    return _layers.Add()([y, shortcut])


def _inverted_block(x: tf.Tensor) -> tf.Tensor:
    y = _layers.Conv2D(16, 1, use_bias=False)(x)
    y = _layers.ReLU(6.0)(_layers.BatchNormalization()(y))
    y = _layers.DepthwiseConv2D(3, padding="same", activation="swish")(y)
    scale = _layers.GlobalAveragePooling2D(keepdims=True)(y)
    scale = _layers.Conv2D(16, 1, activation="sigmoid")(scale)
    return _layers.Add()([_layers.Conv2D(8, 1)(_layers.Multiply()([y, scale])), x])


def _dense_block(x: tf.Tensor) -> tf.Tensor:
    y = _layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    return _layers.AveragePooling2D()(_layers.Concatenate()([x, y]))


def blocks() -> tf.keras.Model:
    """Returns one block of each of the networks below: quick to compile."""
    inputs = tf.keras.Input((12, 12, 3))
    x = _convolutional_block(inputs)
    x = _convolutional_block(x)
    x = _dense_block(_inverted_block(x))
    x = _layers.Flatten()(_layers.MaxPooling2D()(x))
    return tf.keras.Model(inputs, _layers.Dense(CLASSES, activation="softmax")(x))


def _recurrent() -> tf.keras.Model:
    inputs = tf.keras.Input((8,), dtype="int32")
    x = _layers.Embedding(50, 16)(inputs)
    x = _layers.LSTM(16, return_sequences=True)(x)
    x = _layers.Bidirectional(_layers.GRU(8))(x)
    return tf.keras.Model(inputs, _layers.Dense(CLASSES, activation="softmax")(x))


def _transformer() -> tf.keras.Model:
    inputs = tf.keras.Input((8,), dtype="int32")
    x = _layers.Embedding(50, 16)(inputs)
    for _ in range(2):
        attention = _layers.MultiHeadAttention(2, 8)(x, x)
        x = _layers.LayerNormalization()(_layers.Add()([x, attention]))
        hidden = _layers.Dense(32, activation="gelu")(x)
        x = _layers.LayerNormalization()(_layers.Add()([x, _layers.Dense(16)(hidden)]))
    x = _layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(inputs, _layers.Dense(CLASSES, activation="softmax")(x))


# Small enough for every run of the tests.
SMALL: Mapping[str, Entry] = {
    "blocks": Entry(blocks, (12, 12, 3)),
    "recurrent": Entry(_recurrent, (8,), vocabulary=50),
    "transformer": Entry(_transformer, (8,), vocabulary=50),
}

# Whole networks: `make stress`.
LARGE: Mapping[str, Entry] = {
    "ResNet50V2": _application("ResNet50V2"),
    "MobileNetV2": _application("MobileNetV2"),
    # Without drop-out, whose draws differ between replicas.
    "EfficientNetB0": _application("EfficientNetB0", drop_connect_rate=0.0),
    "DenseNet121": _application("DenseNet121"),
}


def data(entry: Entry, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs and class labels, the same in each call."""
    random = np.random.default_rng(5)
    labels = random.integers(0, CLASSES, samples).astype(np.int32)
    shape = (samples, *entry.shape)
    if entry.vocabulary:
        return random.integers(0, entry.vocabulary, shape).astype(np.int32), labels
    return random.standard_normal(shape).astype(np.float32), labels
