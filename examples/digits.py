"""Trains a small convolutional network on real digits on the simulated IPU (TensorFlow 2 style).

Run it with `make demo`, or `python examples/digits.py`.
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from digits_data import load_digits
from tensorflow.python import ipu
from tqdm import tqdm

BATCH_SIZE = 32
STEPS_PER_LAUNCH = 45  # one pass over the training images


class Network(tf.Module):
    """Two convolutions and a dense layer."""

    def __init__(self) -> None:
        """Makes the weights."""
        super().__init__()
        glorot = tf.keras.initializers.GlorotUniform(seed=0)
        self.kernels = [
            tf.Variable(glorot([3, 3, 1, 16]), name="kernel_1"),
            tf.Variable(glorot([3, 3, 16, 32]), name="kernel_2"),
        ]
        self.weights = tf.Variable(glorot([2 * 2 * 32, 10]), name="weights")
        self.bias = tf.Variable(tf.zeros([10]), name="bias")

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Computes logits `[n, 10]` for images `[n, 8, 8, 1]`."""
        x = images
        for kernel in self.kernels:
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
            x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
        return tf.reshape(x, [-1, 2 * 2 * 32]) @ self.weights + self.bias


def train_dataset(images: np.ndarray, labels: np.ndarray) -> tf.data.Dataset:
    """Returns shuffled batches, without end."""
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).cache()
    dataset = dataset.shuffle(len(images), seed=0).repeat()
    return dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(2)


def test_dataset(images: np.ndarray, labels: np.ndarray) -> tf.data.Dataset:
    """Returns the test images as one batch, again and again."""
    return tf.data.Dataset.from_tensors((images, labels)).repeat()


def run(arguments: argparse.Namespace) -> None:
    """Trains and tests on the configured IPU."""
    train, test = load_digits()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        network = Network()
        momenta = [tf.Variable(tf.zeros_like(v)) for v in network.trainable_variables]
        train_iterator = iter(train_dataset(*train))
        test_iterator = iter(test_dataset(*test))
        losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def train_steps() -> None:
            for _ in tf.range(STEPS_PER_LAUNCH):
                images, labels = next(train_iterator)
                with tf.GradientTape() as tape:
                    logits = network(images)
                    loss = tf.reduce_mean(
                        tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                    )
                variables = network.trainable_variables
                gradients = tape.gradient(loss, variables)
                for variable, momentum, gradient in zip(variables, momenta, gradients):
                    momentum.assign(0.9 * momentum + gradient)
                    variable.assign_sub(arguments.learning_rate * momentum)
                losses.enqueue(loss)

        @tf.function(jit_compile=True)
        def accuracy() -> tf.Tensor:
            images, labels = next(test_iterator)
            predicted = tf.argmax(network(images), axis=1, output_type=tf.int32)
            return tf.reduce_mean(tf.cast(tf.equal(predicted, labels), tf.float32))

        with tqdm(total=arguments.launches * STEPS_PER_LAUNCH, unit="step") as progress:
            for _ in range(arguments.launches):
                strategy.run(train_steps)
                progress.set_postfix(loss=f"{np.mean(losses.dequeue()):.4f}")
                progress.update(STEPS_PER_LAUNCH)
        print(f"test accuracy: {float(strategy.run(accuracy)):.2%}\n")


def main() -> None:
    """Configures an IPU, trains, tests, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=20, help="passes over the training images")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--reports", help="directory to write reports to")
    arguments = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    with ipu.profiler.profile(arguments.reports) as profiled:
        run(arguments)
    print(ipu.profiler.summary())
    for directory in profiled.directories:
        print(f"report: {directory / 'report.html'}")


if __name__ == "__main__":
    main()
