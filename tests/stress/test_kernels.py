"""Replicas run the same kernels at the same time on different data: each gets its own results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import replication_ops
from tests.stress import kernels
from tests.support.programs import replicas as replica_helpers

REPLICAS = 4
BATCHES = 5  # replica r computes batch (iteration + r) % BATCHES
TOLERANCE = 1e-4

Results = Callable[[str, tf.Tensor, kernels.Weights], list[tf.Tensor]]

_data = np.random.default_rng(0).standard_normal((BATCHES, *kernels.IMAGES)).astype(np.float32)


@pytest.fixture(scope="module")
def iterations(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--stress-iterations"))


def _value(family: str, x: tf.Tensor, weights: kernels.Weights) -> list[tf.Tensor]:
    return [kernels.FAMILIES[family](x, weights)]


def _gradients(family: str, x: tf.Tensor, weights: kernels.Weights) -> list[tf.Tensor]:
    """Returns the gradients of the mean square by all tensors with one."""
    with tf.GradientTape() as tape:
        tape.watch((x, *weights))
        loss = tf.reduce_mean(tf.square(kernels.FAMILIES[family](x, weights)))
    gradients = tape.gradient(loss, (x, *weights))
    return [gradient for gradient in gradients if gradient is not None]


def _sums(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns sums over all but the first dimension: short, and different for other values."""
    return [tf.reduce_sum(tensor, range(1, len(tensor.shape))) for tensor in tensors]


def _on_replicas(results: Results, family: str, iterations: int) -> list[np.ndarray]:
    """Returns the sums of each result as [iterations, replicas, ...]."""
    replica_helpers.configure(REPLICAS)
    strategy = ipu_strategy.IPUStrategy()
    queue = IPUOutfeedQueue()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(data: tf.Tensor, weights: kernels.Weights) -> None:
            for iteration in tf.range(iterations):
                batch = (iteration + replication_ops.replication_index()) % BATCHES
                queue.enqueue(_sums(results(family, data[batch], weights)))

        strategy.run(program, (tf.constant(_data), kernels.weights()))
    return [np.asarray(result) for result in queue.dequeue()]


def _expected(results: Results, family: str) -> list[np.ndarray]:
    """Returns the sums of each result as [batches, ...], from plain TensorFlow."""
    function = tf.function(lambda x, w: _sums(results(family, x, w)))
    rows = [function(tf.constant(batch), kernels.weights()) for batch in _data]
    return [np.stack(column) for column in zip(*rows)]


def _check(results: Results, family: str, iterations: int) -> None:
    with tf.device("/device:CPU:0"):
        expected = _expected(results, family)
    batches = (np.arange(iterations)[:, None] + np.arange(REPLICAS)) % BATCHES
    for result, reference in zip(_on_replicas(results, family, iterations), expected):
        np.testing.assert_allclose(result, reference[batches], rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("family", kernels.FAMILIES)
def test_kernels_of_replicas_share_no_state(family: str, iterations: int) -> None:
    _check(_value, family, iterations)


@pytest.mark.parametrize(
    "family", [name for name in kernels.FAMILIES if name not in kernels.WITHOUT_GRADIENT]
)
def test_kernels_of_gradients_share_no_state(family: str, iterations: int) -> None:
    _check(_gradients, family, iterations)
