"""Trains a residual network with Keras: two pipeline stages, replicated, in float16."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

CLASSES = 4
layers = keras.layers


def data(samples: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Returns images whose brightest corner is their class."""
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, samples).astype(np.int32)
    images = random.normal(0, 0.1, [samples, 8, 8, 3])
    for image, label in zip(images, labels):
        image[4 * (label // 2) :][:4, 4 * (label % 2) :][:, :4] += 1
    return images.astype(np.float16), labels


def residual(x: tf.Tensor, filters: int) -> tf.Tensor:
    """Is a residual block with group normalisation."""
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    y = layers.Activation("relu")(keras.ipu.layers.GroupNormalization(groups=2)(y))
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(y)
    return layers.Activation("relu")(layers.Add()([x, y]))


def network() -> keras.Model:
    """Returns the model, with its layers in two stages."""
    images = keras.Input((8, 8, 3))
    with keras.ipu.PipelineStage(0):
        x = layers.Conv2D(8, 3, padding="same")(images)
        x = residual(x, 8)
    with keras.ipu.PipelineStage(1):
        x = residual(x, 8)
        x = layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(images, x)


def main(arguments: list[str] | None = None) -> list[float]:
    """Trains, and returns the loss of each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=8)
    options = parser.parse_args(arguments)

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 * options.replicas
    config.convolutions.poplar_options = {"partialsType": "half"}
    config.configure_ipu_system()
    images, labels = data()
    samples = options.micro_batch_size * options.accumulate * options.replicas
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.batch(options.micro_batch_size, drop_remainder=True).repeat()

    with ipu.ipu_strategy.IPUStrategy().scope():
        keras.mixed_precision.set_global_policy("float16")
        try:
            keras.utils.set_random_seed(0)
            model = network()
        finally:
            keras.mixed_precision.set_global_policy("float32")
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=options.accumulate,
            gradient_accumulation_reduction_method=(
                ipu.gradient_accumulation.GradientAccumulationReductionMethod.MEAN
            ),
            pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Grouped,
        )
        model.compile(
            keras.optimizers.SGD(0.1, momentum=0.9),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=options.accumulate * options.replicas,
        )
        history = model.fit(
            dataset,
            epochs=options.epochs,
            steps_per_epoch=len(images) // samples * options.accumulate * options.replicas,
            verbose=0,
        )
        return [float(loss) for loss in history.history["loss"]]


if __name__ == "__main__":
    print(main())
