"""Training steps that are more than one model with one optimizer, compiled without feeds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.runtime import system

WIDTH = 12
# A step, and the variables that it trains.
Program = tuple[Callable[[tf.Tensor], Any], Sequence[tf.Variable]]


def _weight(name: str, shape: tuple[int, ...] = (WIDTH, WIDTH)) -> tf.Variable:
    return tf.Variable(np.ones(shape, np.float32), name=name)


def _optimizer(rate: float = 0.1) -> Any:
    return tf.keras.optimizers.SGD(rate, 0.9)


def two_optimizers() -> Program:
    """A generator and a discriminator, which are updated one after the other."""
    made, judged = _weight("generator/w"), _weight("discriminator/w", (WIDTH, 1))
    first, second = _optimizer(), _optimizer()
    first.build([judged])
    second.build([made])

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x - tf.nn.relu(x @ made)) @ judged)
        first.apply_gradients(zip(tape.gradient(loss, [judged]), [judged]))
        with tf.GradientTape() as tape:
            other = tf.reduce_mean(tf.tanh(tf.nn.relu(x @ made) @ judged))
        second.apply_gradients(zip(tape.gradient(other, [made]), [made]))
        return loss + other

    return step, [made, judged]


def tied_weights() -> Program:
    """A matrix that is used at both ends: its gradient is a sum of two."""
    tied, inner = _weight("tied/w"), _weight("inner/w")
    optimizer = _optimizer()
    optimizer.build([tied, inner])

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(tf.tanh(x @ tied) @ inner)
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tied, transpose_b=True)))
        gradients = tape.gradient(loss, [tied, inner])
        optimizer.apply_gradients(zip(gradients, [tied, inner]))
        return loss

    return step, [tied, inner]


def clipped() -> Program:
    """Gradients that are clipped by the norm of all of them."""
    weights = [_weight("first/w"), _weight("second/w")]
    optimizer = _optimizer()
    optimizer.build(weights)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ weights[0]) @ weights[1]))
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 1.0)
        optimizer.apply_gradients(zip(gradients, weights))
        return loss

    return step, weights


def averaged() -> Program:
    """Weights updated by hand, with moving averages of them and of the activations."""
    weights = [_weight("first/w"), _weight("second/w")]
    means = [_weight("first/mean"), _weight("second/mean")]
    seen = _weight("seen", (WIDTH,))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ weights[0])
            loss = tf.reduce_mean(tf.square(hidden @ weights[1]))
        seen.assign(0.9 * seen + 0.1 * tf.reduce_mean(hidden, 0))
        for weight, mean, gradient in zip(weights, means, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
            mean.assign(0.9 * mean + 0.1 * weight)
        return loss

    return step, weights


PROGRAMS: dict[str, Callable[[], Program]] = {
    program.__name__: program for program in (two_optimizers, tied_weights, clipped, averaged)
}


@functools.cache
def workload(name: str, batch: int) -> tuple[Workload, int]:
    """Returns a program, and the bytes of its trained variables.

    Args:
        name: of the program.
        batch: elements of a mini-batch.
    """
    system.reset_ipu_configuration()
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        step, trained = PROGRAMS[name]()
        strategy.run(tf.function(step, jit_compile=True), [tf.ones([batch, WIDTH])])
    size = sum(4 * int(np.prod(variable.shape)) for variable in trained)
    return cache.executables()[-1].workload, size
