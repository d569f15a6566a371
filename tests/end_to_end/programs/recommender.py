"""Trains a recommender on clicks: items from a host embedding, a history read by a GRU."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import embedding_ops, ipu_compiler, rnn_ops, scopes

ITEMS, HISTORY, WIDTH = 40, 6, 8


def dataset(batch_size: int) -> tf.data.Dataset:
    """Returns histories, an item, and whether it was clicked: if the history has its parity."""
    random = np.random.default_rng(0)
    parity = random.integers(0, 2, [96, 1])
    history = (2 * random.integers(0, ITEMS // 2, [96, HISTORY]) + parity).astype(np.int32)
    item = random.integers(0, ITEMS, 96).astype(np.int32)
    clicked = (item % 2 == parity[:, 0]).astype(np.int32)
    data = tf.data.Dataset.from_tensor_slices((history, item, clicked))
    return data.repeat().batch(batch_size, drop_remainder=True)


def main(arguments: list[str] | None = None) -> np.ndarray:
    """Trains, and returns the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args(arguments)

    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset(options.batch_size))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    table = embedding_ops.create_host_embedding(
        "items",
        shape=[ITEMS, WIDTH],
        dtype=tf.float32,
        optimizer_spec=embedding_ops.HostEmbeddingOptimizerSpec(0.5),
        initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=3),
    )

    def step(history: tf.Tensor, item: tf.Tensor, clicked: tf.Tensor) -> list[tf.Tensor]:
        flat = tf.concat([tf.reshape(history, [-1]), item], axis=0)
        embedded = table.lookup(flat, clip_indices=True)
        read = tf.reshape(embedded[: -options.batch_size], [-1, HISTORY, WIDTH])
        states, _ = rnn_ops.PopnnGRU(WIDTH, dtype=tf.float32)(
            tf.transpose(read, [1, 0, 2]), training=True
        )
        both = tf.concat([states[-1], embedded[-options.batch_size :]], axis=1)
        hidden = tf.layers.dense(both, 16, tf.nn.relu)
        logits = tf.layers.dense(hidden, 2)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=clicked, logits=logits)
        )
        return [tf.train.AdamOptimizer(0.02).minimize(loss), outfeed.enqueue(loss)]

    with scopes.ipu_scope("/device:IPU:0"):
        train = ipu_compiler.compile(
            lambda: ipu.loops.repeat(options.steps, step, [], infeed_queue=infeed)
        )
    losses = outfeed.dequeue()
    ipu.utils.move_variable_initialization_to_cpu()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        with table.register(session):
            session.run(train)
        return np.asarray(session.run(losses))


if __name__ == "__main__":
    tf.disable_v2_behavior()
    print(main())
