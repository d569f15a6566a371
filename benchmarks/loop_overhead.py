"""Times a training loop on the simulated IPU against plain TensorFlow, in one process.

For an MLP and a CNN it prints milliseconds per step of

* plain: an in-graph `tf.function` loop over a `tf.data` iterator,
* ipu: the same loop as a program on the IPU device,
* keras: stock Keras `fit`,

and the ratios ipu / plain (wanted: <= 1.05) and ipu / keras (wanted: <= 0.5). The contenders take
turns, on the same dataset, so that a change of the machine's speed meets them all; a ratio is that
of their medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

BATCH_SIZE = 32
STEPS = 200
LEARNING_RATE = 0.01

Step = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def data() -> tuple[np.ndarray, np.ndarray]:
    """Returns random images `[n, 28, 28, 1]` and labels `[n]`, one epoch of `STEPS` batches."""
    generator = np.random.default_rng(0)
    images = generator.random((BATCH_SIZE * STEPS, 28, 28, 1), dtype=np.float32)
    return images, generator.integers(0, 10, BATCH_SIZE * STEPS, dtype=np.int32)


def dataset() -> tf.data.Dataset:
    """Returns batches without end."""
    batches = tf.data.Dataset.from_tensor_slices(data()).repeat()
    return batches.batch(BATCH_SIZE, drop_remainder=True).prefetch(4)


def variables(shapes: list[list[int]]) -> list[tf.Variable]:
    """Makes weights, and biases of zeros for the shapes of rank 1."""
    glorot = tf.keras.initializers.GlorotUniform(seed=1)
    return [tf.Variable(glorot(s) if len(s) > 1 else tf.zeros(s)) for s in shapes]


def mlp(weights: list[tf.Variable], images: tf.Tensor) -> tf.Tensor:
    """Computes logits with one hidden layer of 256."""
    hidden = tf.nn.relu(tf.reshape(images, [-1, 784]) @ weights[0] + weights[1])
    return hidden @ weights[2] + weights[3]


def cnn(weights: list[tf.Variable], images: tf.Tensor) -> tf.Tensor:
    """Computes logits with conv32-pool-conv64-pool-dense10, kernels of 3x3, no padding."""
    x = images
    for kernel, bias in (weights[0:2], weights[2:4]):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "VALID"), bias))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    return tf.reshape(x, [-1, 5 * 5 * 64]) @ weights[4] + weights[5]


MODELS = {
    "mlp": (mlp, [[784, 256], [256], [256, 10], [10]]),
    "cnn": (cnn, [[3, 3, 1, 32], [32], [3, 3, 32, 64], [64], [1600, 10], [10]]),
}


def training_step(name: str) -> Step:
    """Returns one step of gradient descent for a model with its own weights."""
    network, shapes = MODELS[name]
    weights = variables(shapes)

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = network(weights, images)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(LEARNING_RATE * gradient)
        return loss

    return step


def plain_loop(name: str) -> Callable[[], object]:
    """Returns a function that runs `STEPS` steps in a plain `tf.function`."""
    step, iterator = training_step(name), iter(dataset())

    @tf.function
    def loop() -> tf.Tensor:
        loss = tf.constant(0.0)
        for _ in tf.range(STEPS):
            loss = step(*next(iterator))
        return loss

    return loop


def ipu_loop(name: str) -> Callable[[], object]:
    """Returns a function that runs the same loop as a program on the IPU."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        step, iterator = training_step(name), iter(dataset())

        @tf.function(jit_compile=True)
        def loop() -> tf.Tensor:
            loss = tf.constant(0.0)
            for _ in tf.range(STEPS):
                loss = step(*next(iterator))
            return loss

    return lambda: strategy.run(loop)


def keras_model(name: str) -> tf.keras.Sequential:
    """Returns a model of `MODELS`, of Keras layers."""
    layers = tf.keras.layers
    hidden = {
        "mlp": [layers.Flatten(), layers.Dense(256, "relu")],
        "cnn": [
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPool2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPool2D(),
            layers.Flatten(),
        ],
    }[name]
    return tf.keras.Sequential([*hidden, layers.Dense(10)])


def keras_fit(name: str) -> Callable[[], object]:
    """Returns a function that runs one epoch of `STEPS` steps of stock Keras `fit`."""
    model = keras_model(name)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(LEARNING_RATE), loss)
    batches = dataset()
    return lambda: model.fit(batches, steps_per_epoch=STEPS, verbose=0)


def measure(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Returns the median time of each contender, in milliseconds per step."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # compile
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) / STEPS * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measures both models and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    for name in MODELS:
        contenders = {"plain": plain_loop(name), "ipu": ipu_loop(name), "keras": keras_fit(name)}
        times = measure(contenders, arguments.rounds)
        print(
            f"{name}: plain {times['plain']:.3f} ms, ipu {times['ipu']:.3f} ms, "
            f"keras {times['keras']:.3f} ms; ipu/plain {times['ipu'] / times['plain']:.3f}, "
            f"ipu/keras {times['ipu'] / times['keras']:.3f}"
        )


if __name__ == "__main__":
    main()
