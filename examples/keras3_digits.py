"""Trains a model of Keras 3 on real digits on a simulated IPU: fit, evaluate and predict.

It needs TensorFlow 2.16 or later. docs/keras.md says what of Keras 3 runs on the IPU;
examples/keras_digits.py is the same with Keras 2, which has replicas and pipelines too.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np
from digits_data import load_digits
from keras import layers
from tensorflow.python import ipu

BATCH_SIZE = 32


def make_model() -> keras.Model:
    """Returns a network of convolutions."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def main() -> None:
    """Configures an IPU, trains, tests, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    # Programs have fixed shapes: with whole batches only, there is one program to compile.
    (images, labels), test = load_digits()
    size = len(images) // BATCH_SIZE * BATCH_SIZE
    keras.utils.set_random_seed(0)
    with ipu.profiler.profile(), ipu.ipu_strategy.IPUStrategy().scope():
        model = make_model()
        model.compile(
            optimizer=keras.optimizers.SGD(0.03, momentum=0.9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=size // BATCH_SIZE,  # an epoch is one launch
        )
        model.fit(images[:size], labels[:size], BATCH_SIZE, epochs=arguments.epochs, verbose=2)
        _, accuracy = model.evaluate(*test, batch_size=len(test[0]), verbose=0)
        logits = model.predict(test[0], batch_size=len(test[0]), verbose=0)
        summary = ipu.profiler.summary()

    print(f"\npredicted right: {np.mean(np.argmax(logits, axis=1) == test[1]):.2%}")
    print(f"test accuracy: {accuracy:.2%}\n")
    print(summary)


if __name__ == "__main__":
    main()
