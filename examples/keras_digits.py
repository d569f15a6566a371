"""Trains a Keras model on real digits on simulated IPUs: fit, evaluate and predict.

* `python examples/keras_digits.py` uses one IPU.
* `--replicas 4` trains four replicas of the model, one on each of 4 IPUs.
* `--pipeline` splits the model into a pipeline over 4 IPUs. With `--replicas 2` there are two
  pipelines, on 8 IPUs.

Every weight update is made of 32 images in all cases, so they learn alike. docs/keras.md explains
the parts.
"""

from __future__ import annotations

import argparse
import contextlib

import numpy as np
import tensorflow as tf
from digits_data import load_digits
from tensorflow.python import ipu

BATCH_SIZE = 32  # images for one update of the weights, over everything that shares in it
UPDATES = 44  # in an epoch: one pass over the training images
STAGES = 4
MINI_BATCHES = 8  # that a pipeline takes for one update


def make_model(pipelined: bool) -> tf.keras.Model:
    """Returns a network of convolutions; if it is pipelined, each part is a stage on an IPU."""

    def stage(number: int) -> contextlib.AbstractContextManager:
        return ipu.keras.PipelineStage(number) if pipelined else contextlib.nullcontext()

    layers = tf.keras.layers
    glorot = [tf.keras.initializers.GlorotUniform(seed) for seed in range(STAGES)]
    images = tf.keras.Input((8, 8, 1))
    with stage(0):
        x = layers.Conv2D(16, 3, padding="same", activation="relu", kernel_initializer=glorot[0])(
            images
        )
    with stage(1):
        x = layers.Conv2D(32, 3, padding="same", activation="relu", kernel_initializer=glorot[1])(x)
        x = layers.MaxPool2D()(x)
    with stage(2):
        x = layers.Conv2D(32, 3, padding="same", activation="relu", kernel_initializer=glorot[2])(x)
        x = layers.MaxPool2D()(x)
    with stage(3):
        x = layers.Flatten()(x)
        logits = layers.Dense(10, kernel_initializer=glorot[3])(x)
    return tf.keras.Model(images, logits)


def main() -> None:
    """Configures the IPUs, trains, tests, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--replicas", type=int, choices=[1, 2, 4], default=1)
    parser.add_argument("--pipeline", action="store_true", help="split the model over 4 IPUs")
    arguments = parser.parse_args()
    replicas = arguments.replicas
    mini_batches = MINI_BATCHES if arguments.pipeline else 1

    # There are as many replicas as the model fits into the device.
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = replicas * (STAGES if arguments.pipeline else 1)
    config.configure_ipu_system()

    # Programs have fixed shapes, so all batches are of one size.
    batch_size = BATCH_SIZE // (replicas * mini_batches)
    train, test = (tf.data.Dataset.from_tensor_slices(arrays) for arrays in load_digits())
    train = train.cache().shuffle(2000, seed=0).take(UPDATES * BATCH_SIZE)
    train = train.batch(batch_size, drop_remainder=True).prefetch(16)
    test = test.batch(360 // (replicas * mini_batches), drop_remainder=True)

    # Compiling a model again drops its programs; the profile keeps them for the summary.
    with ipu.profiler.profile(), ipu.ipu_strategy.IPUStrategy().scope():
        model = make_model(arguments.pipeline)
        if arguments.pipeline:
            # Gradients of mini-batches are summed unless the model is told otherwise.
            model.set_pipelining_options(
                gradient_accumulation_steps_per_replica=mini_batches,
                gradient_accumulation_reduction_method="mean",
            )
            model.print_pipeline_stage_assignment_summary()
        # What is reported is the mean over the replicas. Without this it is that of the last one.
        model.set_replication_options(replicated_metric_reduction_method="MEAN")

        def compile_model(steps: int) -> None:
            """Compiles the model with a number of steps per execution."""
            model.compile(
                # Gradients of replicas are summed, so the learning rate is divided.
                optimizer=tf.keras.optimizers.SGD(0.03 / replicas, momentum=0.9),
                loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
                steps_per_execution=steps,
            )

        compile_model(UPDATES * mini_batches)
        model.fit(train, epochs=arguments.epochs)
        compile_model(mini_batches)
        _, accuracy = model.evaluate(test)
        logits = model.predict(test.map(lambda images, labels: images))
        summary = ipu.profiler.summary()

    labels = np.concatenate([labels for _, labels in test])
    print(f"\nfirst images: {labels[:10]}, predicted: {np.argmax(logits[:10], axis=1)}")
    print(f"predicted right: {np.mean(np.argmax(logits, axis=1) == labels):.2%}")
    print(f"test accuracy: {accuracy:.2%}\n")
    print(summary)


if __name__ == "__main__":
    main()
