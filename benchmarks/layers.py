"""Times training steps of layers against the fastest that stock TensorFlow has, in one process.

* lstm: `ipu.rnn_ops.PopnnLSTM` (batch 16, 128 steps, 256 units) in a program, against
  `tf.keras.layers.LSTM`, with and without unrolling, and `BlockLSTM`. Wanted: <= 1.1.
* group_norm, group_norm_strided: 20 steps of `ipu.keras.layers.GroupNormalization` with 8 groups on
  16 x 32 x 32 x 64 in a program, against `tf.keras.layers.GroupNormalization` (which has no strided
  groups) and `tf.nn.moments` with arithmetic, as they are and compiled by XLA. Wanted: <= 1.1.

A step is the forward pass, the gradients of all weights and their update; in GroupNorm also the
gradient of the inputs, as in the middle of a model. The contenders take turns, so that a change of
the machine's speed meets them all; a ratio is that of medians, to the fastest stock contender.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

BATCH, STEPS, UNITS = 16, 128, 256
IMAGES, GROUPS = [BATCH, 32, 32, 64], 8
GROUP_NORM_STEPS = 20  # in a loop: a step takes a few milliseconds only
LEARNING_RATE = 0.1

Run = Callable[[], Any]
Layer = Callable[[tf.Tensor], tf.Tensor]


def train(layer: Layer, x: tf.Tensor, variables: Sequence[tf.Variable]) -> tf.Tensor:
    """Does a training step and returns the loss."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(x) ** 2)
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(LEARNING_RATE * gradient)
    return loss


def in_tensorflow(layer: Layer, x: np.ndarray, variables: Sequence[tf.Variable]) -> Run:
    """Returns a training step of a layer as a `tf.function`."""
    step = tf.function(lambda x: train(layer, x, variables))
    inputs = tf.constant(x)
    return lambda: step(inputs).numpy()


def in_program(make: Callable[[], tuple[Layer, Sequence[tf.Variable]]], x: np.ndarray) -> Run:
    """Returns a training step as a program, of a layer that `make` makes with its variables."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        layer, variables = make()

        @tf.function(jit_compile=True)
        def program(x: tf.Tensor) -> tf.Tensor:
            return train(layer, x, variables)

    inputs = tf.constant(x)
    return lambda: strategy.run(program, [inputs]).numpy()


def lstm_inputs() -> tuple[np.ndarray, np.ndarray]:
    """Returns the inputs `[STEPS, BATCH, UNITS]` and the weights that all contenders start with."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(STEPS, BATCH, UNITS))
    kernel = generator.normal(0, 0.05, size=(2 * UNITS, 4 * UNITS))
    return x.astype(np.float32), kernel.astype(np.float32)


def keras_lstm(unroll: bool) -> Run:
    """Returns a step of the stock Keras layer."""
    x, kernel = lstm_inputs()
    layer = tf.keras.layers.LSTM(UNITS, return_sequences=True, time_major=True, unroll=unroll)
    layer.build((STEPS, BATCH, UNITS))
    layer.set_weights([kernel[:UNITS], kernel[UNITS:], np.zeros(4 * UNITS)])
    return in_tensorflow(layer, x, layer.trainable_variables)


def block_lstm() -> Run:
    """Returns a step of TensorFlow's fused op; its gates are i, candidate, f, o."""
    x, kernel = lstm_inputs()
    i, f, candidate, o = np.split(kernel, 4, 1)
    weights = tf.Variable(np.concatenate([i, candidate, f, o], 1))
    bias, peephole = tf.Variable(tf.zeros([4 * UNITS])), tf.zeros([UNITS])

    def layer(x: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.BlockLSTM(
            seq_len_max=STEPS,
            x=x,
            cs_prev=tf.zeros([BATCH, UNITS]),
            h_prev=tf.zeros([BATCH, UNITS]),
            w=weights,
            wci=peephole,
            wcf=peephole,
            wco=peephole,
            b=bias,
            forget_bias=0.0,
            cell_clip=-1.0,
        ).h

    return in_tensorflow(layer, x, [weights, bias])


def popnn_lstm() -> Run:
    """Returns a step of our layer in a program."""
    x, kernel = lstm_inputs()

    def make() -> tuple[Layer, Sequence[tf.Variable]]:
        layer = ipu.rnn_ops.PopnnLSTM(UNITS, weights_initializer=kernel)
        layer.build(x.shape)
        return lambda x: layer(x)[0], layer.trainable_variables

    return in_program(make, x)


def group_norm_loop(layer: Layer, variables: Sequence[tf.Variable]) -> Run:
    """Returns a function of `GROUP_NORM_STEPS` steps; each changes its inputs by their gradient."""
    generator = np.random.default_rng(0)
    inputs = tf.constant(generator.normal(1, 2, IMAGES), tf.float32)
    target = tf.constant(generator.normal(size=IMAGES), tf.float32)

    def loop() -> tf.Tensor:
        x = inputs
        for _ in tf.range(GROUP_NORM_STEPS):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x) * target) / BATCH
            of_x, *gradients = tape.gradient(loss, [x, *variables])
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(1e-4 * gradient)
            x -= 1e-3 * of_x
        return tf.reduce_mean(layer(x) ** 2)

    return loop


def keras_group_norm(jit_compile: bool) -> Run:
    """Returns steps of the stock Keras layer."""
    layer = tf.keras.layers.GroupNormalization(GROUPS)
    layer.build(IMAGES)
    loop = tf.function(group_norm_loop(layer, layer.trainable_weights), jit_compile=jit_compile)
    return lambda: loop().numpy()


def moments_group_norm(strided: bool, jit_compile: bool) -> Run:
    """Returns steps of group norm written with `tf.nn.moments`."""
    *outer, channels = IMAGES
    split = [channels // GROUPS, GROUPS] if strided else [GROUPS, channels // GROUPS]
    axes = [1, 2, 3] if strided else [1, 2, 4]
    gamma, beta = tf.Variable(tf.ones([channels])), tf.Variable(tf.zeros([channels]))

    def layer(x: tf.Tensor) -> tf.Tensor:
        grouped = tf.reshape(x, [*outer, *split])
        mean, variance = tf.nn.moments(grouped, axes, keepdims=True)
        scale = tf.math.rsqrt(variance + 1e-3) * tf.reshape(gamma, split)
        return tf.reshape(grouped * scale + (tf.reshape(beta, split) - mean * scale), IMAGES)

    loop = tf.function(group_norm_loop(layer, [gamma, beta]), jit_compile=jit_compile)
    return lambda: loop().numpy()


def ipu_group_norm(strided: bool) -> Run:
    """Returns steps of our layer in a program."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        layer = ipu.keras.layers.GroupNormalization(groups=GROUPS, strided_channel_grouping=strided)
        layer.build(IMAGES)
        loop = tf.function(group_norm_loop(layer, layer.trainable_weights), jit_compile=True)
    return lambda: strategy.run(loop).numpy()


# For each line that is printed: our contender, and those of stock TensorFlow.
COMPARISONS: dict[str, tuple[Callable[[], Run], dict[str, Callable[[], Run]]]] = {
    "lstm": (
        popnn_lstm,
        {
            "keras": lambda: keras_lstm(False),
            "keras unrolled": lambda: keras_lstm(True),
            "BlockLSTM": block_lstm,
        },
    ),
    "group_norm": (
        lambda: ipu_group_norm(False),
        {
            "keras": lambda: keras_group_norm(False),
            "keras XLA": lambda: keras_group_norm(True),
            "moments": lambda: moments_group_norm(False, False),
            "moments XLA": lambda: moments_group_norm(False, True),
        },
    ),
    "group_norm_strided": (
        lambda: ipu_group_norm(True),
        {
            "moments": lambda: moments_group_norm(True, False),
            "moments XLA": lambda: moments_group_norm(True, True),
        },
    ),
}


def compare(name: str, rounds: int) -> None:
    """Prints the line of a comparison."""
    ours, stock = COMPARISONS[name]
    contenders = {"ipu": ours(), **{key: make() for key, make in stock.items()}}
    losses = {key: [run() for _ in range(3)] for key, run in contenders.items()}
    for key, values in losses.items():
        np.testing.assert_allclose(values, losses["ipu"], rtol=1e-4, err_msg=key)
    times: dict[str, list[float]] = {key: [] for key in contenders}
    for _ in range(rounds):
        for key, run in contenders.items():
            start = time.perf_counter()
            run()
            times[key].append((time.perf_counter() - start) * 1e3)
    medians = {key: statistics.median(values) for key, values in times.items()}
    fastest = min(stock, key=lambda key: medians[key])
    print(
        f"{name}: " + ", ".join(f"{key} {value:.1f} ms" for key, value in medians.items()),
        f"ipu/{fastest} {medians['ipu'] / medians[fastest]:.3f}",
        sep="; ",
    )


def main() -> None:
    """Measures everything and prints a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("layers", nargs="*", default=sorted(COMPARISONS))
    arguments = parser.parse_args()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    for name in arguments.layers:
        compare(name, arguments.rounds)


if __name__ == "__main__":
    main()
