"""Trains a graph network whose gather and scatter are operations in C++.

eval "$(tensorflow-ipu sdk)" && make && python graph_network.py

The network learns the energy of springs between points. Graphs differ in size, so they are padded:
edges that are not there connect the last node, which is never real. The same network with
TensorFlow's own ops has the same losses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.python import ipu

GRAPHS, NODES, EDGES, WIDTH = 8, 16, 48, 16  # of a batch, with padding
BATCHES, EPOCHS = 16, 6


def make_graphs(count: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Returns random graphs, and their energies.

    Returns:
        Places of the nodes `(count, NODES, 2)`, senders and receivers of the edges
        `(count, EDGES)`; and the energies `(count, 1)`.
    """
    generator = np.random.default_rng(0)
    places = np.zeros((count, NODES, 2), np.float32)
    ends = np.full((2, count, EDGES), NODES - 1, np.int32)
    for graph in range(count):
        nodes, edges = generator.integers(4, NODES), generator.integers(EDGES // 4, EDGES)
        places[graph, :nodes] = generator.normal(0, 0.5, (nodes, 2))
        ends[:, graph, :edges] = generator.integers(0, nodes, (2, edges))
    senders, receivers = (np.take_along_axis(places, end[..., None], 1) for end in ends)
    energies = np.square(senders - receivers).sum((1, 2)) / EDGES
    return (places, *ends), energies[:, None]


class TensorFlowOps:
    """Gather and scatter by TensorFlow."""

    def gather(self, nodes: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        """Returns a node `(GRAPHS, EDGES, width)` for each index of an edge."""
        return tf.gather(nodes, indices, batch_dims=1)

    def scatter(self, messages: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        """Returns the sum `(GRAPHS, NODES, width)` of the messages to each node."""
        first = tf.range(GRAPHS)[:, None] * NODES
        flat = tf.reshape(messages, (-1, messages.shape[-1]))
        segments = tf.reshape(indices + first, [-1])
        sums = tf.math.unsorted_segment_sum(flat, segments, GRAPHS * NODES)
        return tf.reshape(sums, (GRAPHS, NODES, -1))


class PoplarOps:
    """The same by the operations in C++."""

    def __init__(self, library: Path) -> None:
        """Takes the library that `make` compiled."""
        self.library = library

    def gather(self, nodes: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        """Returns a node `(GRAPHS, EDGES, width)` for each index of an edge."""
        return self._add("Gather", nodes, indices, EDGES)

    def scatter(self, messages: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        """Returns the sum `(GRAPHS, NODES, width)` of the messages to each node."""
        return self._add("Scatter", messages, indices, NODES)

    def _add(self, name: str, values: tf.Tensor, indices: tf.Tensor, rows: int) -> tf.Tensor:
        width = values.shape[-1]
        sizes = f"{GRAPHS} {NODES} {width} {EDGES}"
        (result,) = ipu.custom_ops.precompiled_user_op(
            [values, indices],
            self.library,
            outs={"output_types": [values.dtype], "output_shapes": [[GRAPHS, rows, width]]},
            op_name=name,
            name=name.lower(),
            inputs_with_gradients=[0],
            attributes=sizes,
            gradient_attributes=sizes,
        )
        return result


class MessagePassing(layers.Layer):
    """Each edge sends a message, made of its two nodes, to the node that receives it."""

    def __init__(self, ops: TensorFlowOps | PoplarOps) -> None:
        """Makes the layers of messages and of nodes."""
        super().__init__()
        self.ops = ops
        initial = [keras.initializers.GlorotUniform(seed) for seed in range(2)]
        self.message = layers.Dense(WIDTH, "relu", kernel_initializer=initial[0])
        self.update = layers.Dense(WIDTH, "relu", kernel_initializer=initial[1])

    def call(self, nodes: tf.Tensor, senders: tf.Tensor, receivers: tf.Tensor) -> tf.Tensor:
        """Returns the new nodes `(GRAPHS, NODES, WIDTH)`."""
        ends = [self.ops.gather(nodes, end) for end in (senders, receivers)]
        sums = self.ops.scatter(self.message(tf.concat(ends, -1)), receivers)
        return self.update(tf.concat([nodes, sums], -1))


def make_network(ops: TensorFlowOps | PoplarOps) -> keras.Model:
    """Returns a network that maps graphs to energies."""
    places = keras.Input((NODES, 2), GRAPHS)
    senders, receivers = (keras.Input((EDGES,), GRAPHS, dtype=tf.int32) for _ in range(2))
    nodes = MessagePassing(ops)(places, senders, receivers)
    real = tf.reduce_mean(nodes[:, :-1], 1)  # without the node of the padding
    energy = layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(2))(real)
    return keras.Model((places, senders, receivers), energy)


def train(ops: TensorFlowOps | PoplarOps, replicas: int) -> list[float]:
    """Trains a network; returns the loss of each epoch.

    Args:
        ops: its gather and scatter.
        replicas: the number of replicas, each with batches of its own.
    """
    data = tf.data.Dataset.from_tensor_slices(make_graphs(GRAPHS * BATCHES))
    with ipu.ipu_strategy.IPUStrategy().scope():
        network = make_network(ops)
        steps = BATCHES // replicas  # all batches of an epoch in one execution
        network.compile(keras.optimizers.Adam(0.01), "mse", steps_per_execution=steps)
        batches = data.batch(GRAPHS, drop_remainder=True).repeat()
        history = network.fit(batches, epochs=EPOCHS, steps_per_epoch=BATCHES, verbose=0)
    losses: list[float] = history.history["loss"]
    return losses


def main() -> None:
    """Trains with both kinds of ops, and compares the losses."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=Path(__file__).parent / "build")
    parser.add_argument("--replicas", type=int, default=1)
    arguments = parser.parse_args()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = arguments.replicas
    config.configure_ipu_system()

    losses = train(PoplarOps(arguments.build / "libgather_scatter.so"), arguments.replicas)
    for epoch, loss in enumerate(losses, 1):
        print(f"epoch {epoch}/{EPOCHS}: loss {loss:.4f}")
    np.testing.assert_allclose(losses, train(TensorFlowOps(), arguments.replicas), rtol=1e-3)
    print("losses are those of TensorFlow's ops")


if __name__ == "__main__":
    main()
