"""Running a function on several replicas and reading the result of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import replication_ops

tf1 = tf.compat.v1


def configure(replicas: int) -> None:
    """Attaches one device of N IPUs: programs for one IPU have N replicas."""
    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()


def own_row(matrix: Any) -> tf.Tensor:
    """Returns the row of a constant that belongs to the replica that asks."""
    return tf.constant(matrix)[replication_ops.replication_index()]


def run(replicas: int, function: Callable[[], Any], in_session: bool = False) -> Any:
    """Runs a function as a program, once on each replica.

    Args:
        replicas: how many.
        function: returns a tensor, or a list or dict of tensors.
        in_session: whether TensorFlow 1's way is taken: `ipu_compiler.compile` and a session.

    Returns:
        What the replicas computed: arrays of the shape [replicas, ...].
    """
    configure(replicas)
    results = _run_in_session(function) if in_session else run_eagerly(function)
    # The outfeed has [iterations, ...] with one replica, else [iterations, replicas, ...].
    return tf.nest.map_structure(
        lambda array: np.asarray(array) if replicas == 1 else np.asarray(array)[0], results
    )


def run_eagerly(function: Callable[[], Any]) -> Any:
    """Runs a function as a program of the configured device, and returns its outfeed's content."""
    strategy = ipu_strategy.IPUStrategy()
    queue = IPUOutfeedQueue()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program() -> None:
            queue.enqueue(function())

        strategy.run(program)
    return queue.dequeue()


def _run_in_session(function: Callable[[], Any]) -> Any:
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(lambda: queue.enqueue(function()), [])
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            session.run(launch)
            return session.run(dequeue)


def rows(replicas: int, shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Returns random small values for each replica, [replicas, *shape]."""
    generator = np.random.default_rng([seed, replicas, *shape])
    size = [replicas, *shape]
    dtype = tf.as_dtype(dtype)
    if dtype == tf.bool:
        return generator.random(size) < 0.7
    if dtype.is_floating:
        return generator.normal(size=size).astype(dtype.as_numpy_dtype)
    low = 0 if dtype.is_unsigned else -3
    return generator.integers(low, 4, size).astype(dtype.as_numpy_dtype)


def groups(replicas: int, size: int) -> list[range]:
    """Returns the replicas of each group of `size`."""
    return [range(first, first + size) for first in range(0, replicas, size)]


def total_gradient(loss: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Returns the derivative of a function of all replicas' tensors, by central differences."""
    gradient = np.zeros(x.shape)
    for index in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[index] = 1e-5
        gradient[index] = (loss(x + step) - loss(x - step)) / 2e-5
    return gradient
