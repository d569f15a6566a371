"""Trains a variational autoencoder with a loop of its own: `strategy.run` and a `tf.function`."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

WIDTH, LATENT = 12, 2


class Autoencoder(keras.Model):  # type: ignore[misc]
    """Encoder and decoder."""

    def __init__(self) -> None:
        """Makes the parts."""
        super().__init__()
        self.encoder = keras.Sequential(
            [keras.layers.Dense(16, "relu"), keras.layers.Dense(2 * LATENT)]
        )
        self.decoder = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(WIDTH)])

    def call(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the loss and the reconstruction of `x`."""
        mean, log_variance = tf.split(self.encoder(x), 2, axis=1)
        latent = mean + tf.exp(0.5 * log_variance) * tf.random.normal(mean.shape)
        again = self.decoder(latent)
        distance = tf.reduce_sum(tf.square(again - x), axis=1)
        divergence = -0.5 * tf.reduce_sum(
            1 + log_variance - tf.square(mean) - tf.exp(log_variance), axis=1
        )
        return tf.reduce_mean(distance + 0.05 * divergence), again


def main(arguments: list[str] | None = None) -> np.ndarray:
    """Trains, and returns the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--replicas", type=int, default=2)
    options = parser.parse_args(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = options.replicas
    config.configure_ipu_system()
    random = np.random.default_rng(0)
    rows = (random.normal(0, 1, [128, 2]) @ random.normal(0, 1, [2, WIDTH])).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(rows).repeat().batch(8, drop_remainder=True)

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        keras.utils.set_random_seed(0)
        ipu.utils.reset_ipu_seed(2)
        model = Autoencoder()
        optimizer = keras.optimizers.legacy.Adam(0.02)
        optimizer = ipu.keras.optimizers.CrossReplicaOptimizer(optimizer)
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def train(iterator: tf.data.Iterator, steps: int) -> None:
            for _ in tf.range(steps):
                x = next(iterator)
                with tf.GradientTape() as tape:
                    loss, _ = model(x)
                variables = model.trainable_variables
                optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
                outfeed.enqueue(loss)

        iterator = iter(dataset)
        losses = []
        for _ in range(options.epochs):
            strategy.run(train, args=(iterator, options.steps))
            losses.append(np.asarray(outfeed.dequeue()).mean())
        return np.asarray(losses)


if __name__ == "__main__":
    print(main())
