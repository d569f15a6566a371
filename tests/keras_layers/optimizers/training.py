"""Optimizers by name and programs that train, for the tests of Keras optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers import optimizers
from tests.support.programs import replicas

keras = tf.keras
GENERATIONS = {"new": keras.optimizers, "legacy": keras.optimizers.legacy}
INNER = {
    "sgd": lambda family: family.SGD(0.1),
    "momentum": lambda family: family.SGD(0.1, momentum=0.9),
    "adam": lambda family: family.Adam(0.05),
    "rmsprop": lambda family: family.RMSprop(0.02, momentum=0.5, centered=True),
    "clipped": lambda family: family.SGD(0.1, clipnorm=0.5),
}
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "IpuOptimizer": optimizers.IpuOptimizer,
    "CrossReplicaOptimizer": optimizers.CrossReplicaOptimizer,
    "MapGradientOptimizerInvertedChaining": lambda opt: (
        optimizers.MapGradientOptimizerInvertedChaining(opt, lambda gradient, variable: gradient)
    ),
    "ALSOptimizer": lambda opt: optimizers.ALSOptimizer(opt, update_frequency=2),
    "GradientAccumulationOptimizer": lambda opt: optimizers.GradientAccumulationOptimizer(opt, 3),
    "ALSGradientAccumulationOptimizer": lambda opt: optimizers.ALSGradientAccumulationOptimizer(
        optimizers.ALSOptimizer(opt), 3
    ),
}
INITIAL = np.float32([[1, -2, 0.5], [0.25, 3, -1]])


def make(inner: str, generation: str) -> Any:
    """Returns an optimizer by name."""
    return INNER[inner](GENERATIONS[generation])


def targets(count: int, dtype: Any = np.float32) -> np.ndarray:
    """Returns the targets of the weights in each of `count` steps: `[count, 2, 3]`."""
    return np.random.default_rng(5).normal(size=(count, *INITIAL.shape)).astype(dtype)


def loss(weight: Any, target: Any) -> tf.Tensor:
    """Returns half the squared distance: its gradient is `weight - target`."""
    return tf.reduce_sum(tf.square(weight - target)) / 2


def build(optimizer: Any, variables: list[tf.Variable]) -> None:
    """Makes the variables of an optimizer."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.build(variables)
    else:
        optimizer._create_all_weights(variables)


def train_eagerly(optimizer: Any, steps: int, dtype: tf.DType = tf.float32) -> np.ndarray:
    """Trains a weight on the CPU, and returns it."""
    weight = tf.Variable(tf.cast(INITIAL, dtype))
    for target in targets(steps):
        value = tf.cast(target, dtype)
        optimizer.minimize(lambda: loss(weight, value), [weight])  # noqa: B023
    return weight.numpy()


def run(
    make_optimizer: Callable[[], Any],
    body: Callable[[Any, tf.Variable, tf.Tensor], Any],
    data: np.ndarray,
    replica_count: int = 1,
    dtype: tf.DType = tf.float32,
) -> tuple[Any, np.ndarray]:
    """Trains a weight in programs on the IPU, one launch a step.

    Args:
        make_optimizer: Returns the optimizer.
        body: Takes the optimizer, the weight and the target of this replica, and makes a step.
        data: Targets, `[launches, replicas, 2, 3]`.
        replica_count: How many replicas.
        dtype: Of the weight.

    Returns:
        The optimizer and the trained weight.
    """
    replicas.configure(replica_count)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weight = tf.Variable(tf.cast(INITIAL, dtype))
        optimizer = make_optimizer()
        build(optimizer, [weight])

        @tf.function(jit_compile=True)
        def step(rows: tf.Tensor) -> None:
            target = tf.cast(rows[replicas.replication_ops.replication_index()], dtype)
            body(optimizer, weight, target)

        for rows in data:
            strategy.run(step, args=(tf.constant(rows),))
    return optimizer, weight.numpy()


def minimize(optimizer: Any, weight: tf.Variable, target: tf.Tensor) -> None:
    """Makes a step of `optimizer.minimize`."""
    with tf.GradientTape() as tape:
        value = loss(weight, target)
    optimizer.minimize(value, [weight], tape=tape)
