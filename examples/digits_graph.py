"""Trains a small convolutional network on real digits on the simulated IPU (TensorFlow 1 style).

The twin of digits.py as a graph: `python examples/digits_graph.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from digits_data import load_digits
from tensorflow.python import ipu
from tqdm import tqdm

BATCH_SIZE = 32
STEPS_PER_LAUNCH = 45  # one pass over the training images


def network(images: tf.Tensor) -> tf.Tensor:
    """Builds the logits `[n, 10]` for images `[n, 8, 8, 1]`."""
    x = images
    glorot = tf.glorot_uniform_initializer(seed=0)
    with tf.variable_scope("network", reuse=tf.AUTO_REUSE, use_resource=True):
        for index, channels in enumerate((16, 32)):
            shape = [3, 3, x.shape[-1], channels]
            kernel = tf.get_variable(f"kernel_{index}", shape, initializer=glorot)
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
            x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
        x = tf.reshape(x, [-1, 2 * 2 * 32])
        weights = tf.get_variable("weights", [2 * 2 * 32, 10], initializer=glorot)
        bias = tf.get_variable("bias", [10], initializer=tf.zeros_initializer())
        return tf.matmul(x, weights) + bias


def train_dataset(images: np.ndarray, labels: np.ndarray) -> tf.data.Dataset:
    """Returns shuffled batches, without end."""
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).cache()
    dataset = dataset.shuffle(len(images), seed=0).repeat()
    return dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(2)


def main() -> None:
    """Configures an IPU, trains, tests, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=20, help="passes over the training images")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    arguments = parser.parse_args()

    tf.disable_v2_behavior()
    (train_x, train_y), (test_x, test_y) = load_digits()
    infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(train_dataset(train_x, train_y))
    outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def train_step(images: tf.Tensor, labels: tf.Tensor) -> list[Any]:
        logits = network(images)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        optimizer = tf.train.MomentumOptimizer(arguments.learning_rate, momentum=0.9)
        return [optimizer.minimize(loss), outfeed_queue.enqueue(loss)]

    def train() -> Any:
        return ipu.loops.repeat(STEPS_PER_LAUNCH, train_step, [], infeed_queue)

    def accuracy(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        predicted = tf.argmax(network(images), axis=1, output_type=tf.int32)
        return tf.reduce_mean(tf.cast(tf.equal(predicted, labels), tf.float32))

    images = tf.placeholder(tf.float32, test_x.shape)
    labels = tf.placeholder(tf.int32, test_y.shape)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        train_op = ipu.ipu_compiler.compile(train)
        (accuracy_op,) = ipu.ipu_compiler.compile(accuracy, [images, labels])
    losses = outfeed_queue.dequeue()
    ipu.utils.move_variable_initialization_to_cpu()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(infeed_queue.initializer)
        with tqdm(total=arguments.launches * STEPS_PER_LAUNCH, unit="step") as progress:
            for _ in range(arguments.launches):
                session.run(train_op)
                progress.set_postfix(loss=f"{np.mean(session.run(losses)):.4f}")
                progress.update(STEPS_PER_LAUNCH)
        result = session.run(accuracy_op, {images: test_x, labels: test_y})
        print(f"test accuracy: {result:.2%}\n")

    print(ipu.profiler.summary())


if __name__ == "__main__":
    main()
