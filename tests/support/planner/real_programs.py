"""Workloads of small Keras models that are really compiled, for tests of the planner."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.workload import describe
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.runtime import system

layers = tf.keras.layers
CLASSES = 10
STEPS = 2


def mlp() -> Any:
    """Two dense layers."""
    return tf.keras.Sequential(
        [
            layers.Input((16,)),
            layers.Dense(32, "relu", name="first"),
            layers.Dense(CLASSES, name="second"),
        ]
    )


def cnn() -> Any:
    """Convolutions with normalisation and pooling."""
    return tf.keras.Sequential(
        [
            layers.Input((12, 12, 3)),
            layers.Conv2D(8, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPool2D(),
            layers.Conv2D(16, 3),
            layers.Flatten(),
            layers.Dense(CLASSES),
        ]
    )


def attention() -> Any:
    """Attention with a residual connection and layer normalisation."""
    x = layers.Input((6, 24))
    mixed = layers.MultiHeadAttention(3, 8)(x, x)
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x + mixed))
    return tf.keras.Model(x, layers.Dense(CLASSES)(pooled))


def encoder() -> Any:
    """Embedding, attention and a block of dense layers, with residual connections."""
    words = layers.Input((6,), dtype="int32")
    x = layers.Embedding(50, 24)(words)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(3, 8)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(24)(layers.Dense(48, "relu")(x)))
    pooled = layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(words, layers.Dense(CLASSES)(pooled))


def residual() -> Any:
    """Residual blocks, in which gradients of activations meet in sums."""
    x = layers.Input((8, 8, 3))
    y = layers.Conv2D(8, 3, padding="same")(x)
    for _ in range(2):
        z = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.add([y, layers.Conv2D(8, 3, padding="same")(z)])
    return tf.keras.Model(x, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(y)))


def lstm() -> Any:
    """A recurrent layer: a loop with its gradient, in functions that are called."""
    return tf.keras.Sequential(
        [layers.Input((6, 8)), layers.LSTM(16), layers.Dense(CLASSES)],
    )


MODELS: dict[str, Callable[[], Any]] = {
    "mlp": mlp,
    "cnn": cnn,
    "attention": attention,
    "encoder": encoder,
    "residual": residual,
    "lstm": lstm,
}


@functools.cache
def workload(
    name: str,
    batch: int,
    replicas: int = 1,
    count: int = 1,
    cut: tuple[tuple[str, ...], ...] = (),
) -> Workload:
    """Returns the training program of a model.

    Args:
        name: of the model.
        batch: elements of a mini-batch.
        replicas: how many copies of it.
        count: mini-batches of an update.
        cut: names of the layers of each pipeline stage; those in none are in that of the layer
            before. None without a pipeline.
    """
    system.reset_ipu_configuration()
    config = IPUConfig()
    config.auto_select_ipus = replicas * max(len(cut), 1)
    config.configure_ipu_system()
    tf.keras.backend.reset_uids()  # layers have the same names each time
    steps = (STEPS if count == 1 else count) * replicas
    with ipu_strategy.IPUStrategy().scope():
        model = MODELS[name]()
        if cut:
            _pipeline(model, cut, count)
        elif count > 1:
            model.set_gradient_accumulation_options(count)
        model.compile(
            tf.keras.optimizers.SGD(0.1, 0.9),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=steps,
        )
        shape, dtype = (batch, *model.input_shape[1:]), model.inputs[0].dtype.as_numpy_dtype
        element = (np.zeros(shape, dtype), np.zeros(batch, np.int32))
        model.fit(tf.data.Dataset.from_tensors(element).repeat(steps), verbose=0)
    executable = max(cache.executables(), key=lambda e: len(e.variables))
    return describe.workload(executable)


def _pipeline(model: Any, cut: tuple[tuple[str, ...], ...], count: int) -> None:
    """Puts the layers of a model into pipeline stages."""
    stages = {layer: stage for stage, names in enumerate(cut) for layer in names}
    stage = 0
    assignment = model.get_pipeline_stage_assignment()
    for element in assignment:
        stage = stages.get(element.layer.name, stage)
        element.pipeline_stage = stage
    model.set_pipeline_stage_assignment(assignment)
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=count)


def stack(depth: int, stages: tuple[int, ...] = (), count: int = 1) -> Executable:
    """Compiles a stack of dense layers, pipelined or not.

    Args:
        depth: number of layers, called `dense0` and so on.
        stages: stage of each layer; none without a pipeline.
        count: mini-batches of an update.
    """
    system.reset_ipu_configuration()
    config = IPUConfig()
    config.auto_select_ipus = max(stages, default=0) + 1
    config.configure_ipu_system()
    with ipu_strategy.IPUStrategy().scope():
        x = value = tf.keras.Input((256,))
        for index in range(depth):
            with PipelineStage(stages[index]) if stages else contextlib.nullcontext():
                value = layers.Dense(256, name=f"dense{index}")(value)
        model = tf.keras.Model(x, value)
        if stages:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=count)
        model.compile(tf.keras.optimizers.SGD(0.1, 0.9), "mse", steps_per_execution=count)
        batch = np.zeros((16, 256), np.float32)
        model.fit(tf.data.Dataset.from_tensors((batch, batch)).repeat(count), verbose=0)
    return max(cache.executables(), key=lambda e: len(e.variables))
