"""Classifies small molecules (graphs) with message passing: gathers and segment sums in Keras."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

NODES, EDGES, FEATURES = 6, 8, 4


class MessagePassing(keras.layers.Layer):  # type: ignore[misc]
    """Adds to each node the messages of its neighbours."""

    def __init__(self, width: int) -> None:
        """Makes the parts."""
        super().__init__()
        self.message = keras.layers.Dense(width, "relu")
        self.update = keras.layers.Dense(width, "relu")

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Returns the nodes after one round; nodes [batch, nodes, features]."""
        nodes, senders, receivers = inputs
        batch = nodes.shape[0]
        offsets = NODES * tf.range(batch)[:, None]
        flat = tf.reshape(nodes, [batch * NODES, -1])
        sent = self.message(tf.gather(flat, tf.reshape(senders + offsets, [-1])))
        order = tf.argsort(tf.reshape(receivers + offsets, [-1]))
        received = ipu.math_ops.segment_sum(
            tf.gather(sent, order),
            tf.gather(tf.reshape(receivers + offsets, [-1]), order),
            batch * NODES,
        )
        return tf.reshape(self.update(tf.concat([flat, received], axis=1)), [batch, NODES, -1])


def data(samples: int = 96) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Returns nodes, senders and receivers of edges, and whether node 0 has many neighbours."""
    random = np.random.default_rng(0)
    nodes = np.zeros([samples, NODES, FEATURES], np.float32)
    nodes[:, 0, 0] = 1
    senders = random.integers(1, NODES, [samples, EDGES]).astype(np.int32)
    receivers = random.integers(0, 3, [samples, EDGES]).astype(np.int32)
    labels = ((receivers == 0).sum(axis=1) >= 3).astype(np.int32)
    return (nodes, senders, receivers), labels


def main(arguments: list[str] | None = None) -> list[float]:
    """Trains, and returns the loss of each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    inputs, labels = data()
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels))
    dataset = dataset.batch(options.batch_size, drop_remainder=True)
    with ipu.ipu_strategy.IPUStrategy().scope():
        keras.utils.set_random_seed(0)
        shapes = [((NODES, FEATURES), "float32"), ((EDGES,), "int32"), ((EDGES,), "int32")]
        nodes, senders, receivers = (
            keras.Input(shape, options.batch_size, dtype=dtype) for shape, dtype in shapes
        )
        x = MessagePassing(8)((nodes, senders, receivers))
        x = MessagePassing(8)((x, senders, receivers))
        x = keras.layers.Dense(2)(keras.layers.Lambda(lambda x: x[:, 0])(x))
        model = keras.Model([nodes, senders, receivers], x)
        model.compile(
            keras.optimizers.Adam(0.02),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=len(labels) // options.batch_size,
        )
        history = model.fit(dataset, epochs=options.epochs, verbose=0)
        return [float(loss) for loss in history.history["loss"]]


if __name__ == "__main__":
    print(main())
