"""A training of a host embedding, which an instance or the only process of a program runs.

As a script it is an instance, and reports its table:

    python -m tests.support.processes.host_embedding_training 2 4

trains with 2 replicas in all instances, then with 4.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.ops import replication_ops
from tensorflow_ipu.ops.embedding_ops import (
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)
from tests.support.processes import instances

tf1 = tf.compat.v1

TOKENS, WIDTH, BATCH = 9, 3, 4
STEPS = 8
ACCUMULATED = 2
RATE = 0.03


def ids(total: int) -> np.ndarray:
    """Returns the rows that each replica looks up in each step, [steps, replicas, batch]."""
    generator = np.random.default_rng(4)
    return generator.integers(0, TOKENS, (STEPS, total, BATCH)).astype(np.int32)


def initial() -> np.ndarray:
    """Returns the table before the training."""
    return np.random.default_rng(1).normal(size=(TOKENS, WIDTH)).astype(np.float32)


def trained(total: int) -> np.ndarray:
    """Trains on the configured device; the loss is the sum of squares of all rows.

    Args:
        total: replicas of all instances.

    Returns:
        The table.
    """
    rows = ids(total)

    def step(number: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
        own = tf.constant(rows)[number, replication_ops.replication_index()]
        found = embedding.lookup(own)
        weight = tf1.get_variable("weight", initializer=1.0, use_resource=True)
        loss = weight * tf.reduce_sum(found**2)
        return number + 1, tf1.train.GradientDescentOptimizer(0.0).minimize(loss)

    with tf.Graph().as_default():
        embedding = create_host_embedding(
            "table",
            [TOKENS, WIDTH],
            np.float32,
            optimizer_spec=HostEmbeddingSGDGAOptimizerSpec(RATE, ACCUMULATED),
            initializer=tf1.constant_initializer(initial()),
        )
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(lambda: loops.repeat(STEPS, step, [0]))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            with embedding.register(session):
                session.run(launch)
            return session.run(embedding.get_embedding_tensor())


def main() -> None:
    """Trains as an instance, with each number of replicas in the command line."""
    me = instances.join()
    for total in map(int, sys.argv[1:]):
        instances.configure(dataclasses.replace(me, total_replicas=total))
        instances.report(total=total, table=trained(total))


if __name__ == "__main__":
    main()
