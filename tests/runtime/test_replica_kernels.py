"""Each replica runs kernels of its own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tests.support.programs import replicas as replica_helpers

DRAWS = 6


def _sample() -> tf.Tensor:
    """Draws with the kernel's own generator, which goes on from one call to the next."""
    return tf.raw_ops.FixedUnigramCandidateSampler(
        true_classes=tf.constant([[0]], tf.int64),
        num_true=1,
        num_sampled=8,
        unique=False,
        range_max=100,
        unigrams=[1.0] * 100,
        seed=3,
        seed2=5,
    ).sampled_candidates


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """Returns the samples of one kernel of plain TensorFlow, as [draws, samples]."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sample = _sample()
        return np.stack([session.run(sample) for _ in range(DRAWS)])


def _draw(strategy: ipu_strategy.IPUStrategy) -> np.ndarray:
    queue = IPUOutfeedQueue(device_ordinal=strategy.device_ordinal)
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program() -> None:
            for _ in tf.range(DRAWS):
                queue.enqueue(_sample())

        strategy.run(program)
    return np.asarray(queue.dequeue())


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_state_in_a_kernel_belongs_to_one_replica(replicas: int, expected: np.ndarray) -> None:
    replica_helpers.configure(replicas)
    drawn = _draw(ipu_strategy.IPUStrategy()).reshape(DRAWS, replicas, -1)
    for replica in range(replicas):
        np.testing.assert_array_equal(drawn[:, replica], expected)


def test_state_in_a_kernel_belongs_to_one_device(expected: np.ndarray) -> None:
    config = IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    for device in ("/device:IPU:0", "/device:IPU:1"):
        drawn = _draw(ipu_strategy.IPUStrategy(device))
        np.testing.assert_array_equal(drawn, expected)
