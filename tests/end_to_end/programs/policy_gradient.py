"""Trains a policy with an LSTM on two replicas, with feeds from the host at each step."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import cross_replica_optimizer, ipu_compiler, rnn_ops, scopes, utils

TIME, BATCH, FEATURES, ACTIONS = 5, 8, 4, 3


def experience(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns observations, actions and rewards: action k wins where feature k is the largest."""
    random = np.random.default_rng(seed)
    seen = random.normal(0, 1, [TIME, BATCH, FEATURES]).astype(np.float32)
    actions = random.integers(0, ACTIONS, [TIME, BATCH]).astype(np.int32)
    rewards = (seen[..., :ACTIONS].argmax(axis=-1) == actions).astype(np.float32) - 1 / ACTIONS
    return seen, actions, rewards


def step(seen: tf.Tensor, actions: tf.Tensor, rewards: tf.Tensor) -> list[tf.Tensor]:
    """Makes one update, and returns the loss and how probable the actions were that won."""
    outputs, _ = rnn_ops.PopnnLSTM(8, dtype=tf.float32)(seen, training=True)
    logits = tf.layers.dense(tf.reshape(outputs, [-1, 8]), ACTIONS)
    log_probabilities = tf.nn.log_softmax(logits)
    chosen = tf.reduce_sum(
        log_probabilities * tf.one_hot(tf.reshape(actions, [-1]), ACTIONS), axis=-1
    )
    loss = -tf.reduce_mean(chosen * tf.reshape(rewards, [-1]))
    optimizer = cross_replica_optimizer.CrossReplicaOptimizer(tf.train.AdamOptimizer(0.05))
    train = optimizer.minimize(loss)
    loss = ipu.ops.cross_replica_ops.cross_replica_sum(loss) / 2
    with tf.control_dependencies([train]):
        return [tf.identity(loss)]


def main(arguments: list[str] | None = None) -> list[float]:
    """Trains, and returns the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    options = parser.parse_args(arguments)

    with tf.device("cpu"):
        placeholders = [
            tf.placeholder(tf.float32, [TIME, BATCH, FEATURES]),
            tf.placeholder(tf.int32, [TIME, BATCH]),
            tf.placeholder(tf.float32, [TIME, BATCH]),
        ]
    with scopes.ipu_scope("/device:IPU:0"):
        (loss,) = ipu_compiler.compile(step, placeholders)
    utils.move_variable_initialization_to_cpu()
    config = utils.create_ipu_config(profiling=False, use_poplar_text_report=False)
    config = utils.auto_select_ipus(config, [2])
    utils.configure_ipu_system(config)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [
            float(session.run(loss, dict(zip(placeholders, experience(i % 4)))))
            for i in range(options.steps)
        ]


if __name__ == "__main__":
    tf.disable_v2_behavior()
    print(main())
