"""Keras models in stages for tests, and stock Keras with their pipelines' steps by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage

layers = tf.keras.layers
BATCH = 2
FEATURES = 4
OUTPUTS = 3

Stage = Callable[[int], Any]


def strategy(ipus: int) -> ipu_strategy.IPUStrategy:
    """Attaches a device with N IPUs, and returns a strategy for it."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu_strategy.IPUStrategy()


def dense(units: int, seed: int, activation: Any = "tanh", **options: Any) -> Any:
    """Returns a dense layer with the same weights each time."""
    initializer = tf.keras.initializers.GlorotUniform(seed=seed)
    return layers.Dense(units, activation, kernel_initializer=initializer, **options)


def data(batches: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs `[n, FEATURES]` and targets `[n, OUTPUTS]` for N batches."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(batches * BATCH, FEATURES)).astype(np.float32)
    return x, generator.normal(size=(len(x), OUTPUTS)).astype(np.float32)


def dataset(*parts: Any) -> tf.data.Dataset:
    """Returns batches of the parts: one for `x`, two with `y`, three with weights."""
    element = parts if len(parts) > 1 else parts[0]
    return tf.data.Dataset.from_tensor_slices(element).batch(BATCH, drop_remainder=True)


def no_stage(_: int) -> Any:
    """Stands for `PipelineStage` in models for stock Keras."""
    return _NoStage()


class _NoStage:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


def functional(stage: Stage = PipelineStage) -> tf.keras.Model:
    """A branch that skips a stage, TensorFlow's own functions, and regularizers."""
    inputs = layers.Input((FEATURES,), name="in")
    with stage(0):
        a = dense(6, 1, name="a")(inputs)
        b = dense(5, 2, name="b", kernel_regularizer="l2")(a)
    with stage(1):
        c = dense(OUTPUTS, 3, name="c", activity_regularizer="l2")(b)
        outputs = layers.Add(name="sum")([c, a[:, :OUTPUTS] * 2.0])
    return tf.keras.Model(inputs, outputs, name="functional")


def shared(stage: Stage = PipelineStage) -> tf.keras.Model:
    """One layer in two stages, which have to be on one IPU."""
    inputs = layers.Input((FEATURES,))
    layer = dense(FEATURES, 4, name="twice", kernel_regularizer="l2")
    with stage(0):
        x = layer(inputs)
    with stage(1):
        x = dense(OUTPUTS, 5, name="out")(layer(x))
    return tf.keras.Model(inputs, x, name="shared")


def sequential(stage: Stage = PipelineStage) -> tf.keras.Sequential:
    """Three stages; the model is built when it sees data."""
    with stage(0):
        first = [dense(6, 1, name="a"), layers.Dropout(0.0)]
    with stage(1):
        second = [dense(5, 2, name="b", kernel_regularizer="l2")]
    with stage(2):
        third = [dense(OUTPUTS, 3, name="c")]
    return tf.keras.Sequential([*first, *second, *third], name="sequential")


class Subclass(tf.keras.Model):
    """Calls a layer twice, and TensorFlow's functions in a stage of their own choice."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(name="subclass")
        self._stage = stage
        with stage(0):
            self.a = dense(6, 1, name="a")
        with stage(1):
            self.b = dense(6, 2, name="b")
            self.c = dense(OUTPUTS, 3, name="c")

    def call(self, inputs: tf.Tensor, training: Any = None) -> tf.Tensor:
        """Adds a loss of its own."""
        x = self.a(inputs)
        with self._stage(1):
            x = self.b(x) + self.b(-x) * 0.5
            self.add_loss(0.1 * tf.reduce_mean(x**2))
        return self.c(x, training=training)


def subclass(stage: Stage = PipelineStage) -> tf.keras.Model:
    """A built `Subclass`."""
    model = Subclass(stage)
    if stage is PipelineStage:
        # From shapes, Keras cannot build a model that adds a loss.
        model.build(tf.keras.Input((FEATURES,), BATCH))
    else:
        model(tf.zeros((BATCH, FEATURES)))
    return model


def nested(stage: Stage = PipelineStage) -> tf.keras.Model:
    """A functional model around a Sequential one around a functional one, and a subclass."""
    inner_inputs = layers.Input((6,))
    with stage(1):
        inner = tf.keras.Model(inner_inputs, dense(6, 7, name="innermost")(inner_inputs))
    with stage(0):
        first = dense(6, 6, name="head")
    middle = tf.keras.Sequential([first, inner], name="middle")
    inputs = layers.Input((FEATURES,))
    x = middle(inputs)
    x = Tail(stage)(x)
    with stage(2):
        x = dense(OUTPUTS, 9, name="last")(x)
    return tf.keras.Model(inputs, x, name="nested")


class Tail(tf.keras.Model):
    """A small subclass for `nested`."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(name="tail")
        with stage(1):
            self.layer = dense(4, 8, name="tail_layer", kernel_regularizer="l2")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Calls its layer."""
        return self.layer(inputs)


MODELS: dict[str, Callable[..., tf.keras.Model]] = {
    "functional": functional,
    "sequential": sequential,
    "subclass": subclass,
    "nested": nested,
}


def trained(
    model: tf.keras.Model,
    batches: Sequence[Sequence[np.ndarray]],
    count: int,
    factor: float = 1.0,
) -> list[float]:
    """Trains a compiled model eagerly: the sum of the gradients of `count` batches at once.

    Args:
        model: A model of stock Keras.
        batches: Inputs, targets and perhaps sample weights of each batch.
        count: Batches for one update.
        factor: Factor on the gradients.

    Returns:
        The loss of each batch.
    """
    losses = []
    for group in _groups(batches, count):
        total: list[Any] = []
        for batch in group:
            x, y, *weights = tf.nest.map_structure(tf.convert_to_tensor, batch)
            with tf.GradientTape() as tape:
                y_pred = model(x, training=True)
                loss = model.compute_loss(x, y, y_pred, weights[0] if weights else None)
            losses.append(float(loss))
            gradients = tape.gradient(loss, model.trainable_variables)
            dense_gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
            total = (
                dense_gradients if not total else [a + b for a, b in zip(total, dense_gradients)]
            )
        scaled = [gradient * factor for gradient in total]
        model.optimizer.apply_gradients(zip(scaled, model.trainable_variables))
    return losses


def _groups(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def batches_of(*parts: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Splits arrays into batches."""
    return list(zip(*(np.split(part, len(part) // BATCH) for part in parts)))
