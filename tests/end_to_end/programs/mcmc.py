"""Samples the coefficients of a regression by Markov chains, one on each of two IPU devices."""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import ipu_compiler, loops, scopes, utils

TRUE = np.float32([1.5, -2.0, 0.5])


def observations() -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs, and outputs with noise."""
    random = np.random.default_rng(0)
    x = random.normal(0, 1, [64, len(TRUE)]).astype(np.float32)
    return x, (x @ TRUE + random.normal(0, 0.1, 64)).astype(np.float32)


def chain(samples: int, x: np.ndarray, y: np.ndarray) -> list[tf.Tensor]:
    """Returns the mean of the samples after the first half, and the share that was accepted."""

    def log_probability(beta: tf.Tensor) -> tf.Tensor:
        residuals = y - tf.linalg.matvec(tf.constant(x), beta)
        return -0.5 * tf.reduce_sum(tf.square(residuals / 0.5))

    def step(
        i: tf.Tensor, beta: tf.Tensor, now: tf.Tensor, total: tf.Tensor, accepted: tf.Tensor
    ) -> list[tf.Tensor]:
        proposal = beta + 0.1 * tf.random.normal([len(TRUE)])
        proposed = log_probability(proposal)
        accept = tf.math.log(tf.random.uniform([])) < proposed - now
        beta = tf.where(accept, proposal, beta)
        now = tf.where(accept, proposed, now)
        total += tf.where(i >= samples // 2, beta, tf.zeros_like(beta))
        return [i + 1, beta, now, total, accepted + tf.cast(accept, tf.float32)]

    start = tf.zeros([len(TRUE)])
    state = [tf.constant(0), start, log_probability(start), start, tf.constant(0.0)]
    _, _, _, total, accepted = loops.repeat(samples, step, state)
    return [total / (samples - samples // 2), accepted / samples]


def main(arguments: list[str] | None = None) -> list[list[np.ndarray]]:
    """Runs the chains, and returns mean and acceptance of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    options = parser.parse_args(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    utils.reset_ipu_seed(1)
    x, y = observations()
    chains = []
    for device in range(2):
        with scopes.ipu_scope(f"/device:IPU:{device}"):
            chains.append(ipu_compiler.compile(lambda: chain(options.samples, x, y), []))
    with tf.Session() as session:
        return session.run(chains)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    print(main())
