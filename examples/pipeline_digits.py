"""Trains a network that is split over 4 IPUs on real digits (TensorFlow 2 style).

Four stages on 4 IPUs make a pipeline, and 8 IPUs hold two replicas of it. An execution of the
pipeline takes 8 mini-batches through the stages of each replica, averages their gradients, also
over the replicas, and updates the weights once. One launch makes 22 executions.

All names here are those of the IPU's own API: `ipu.pipelining_ops`, `ipu.optimizers`, the queues.
Only pipeline_common.py, which prints the schedule, uses what the simulator adds.

Run it with `python examples/pipeline_digits.py`. What it prints is explained in
docs/parallelism.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from digits_data import load_digits
from pipeline_common import parse_arguments, print_report
from tensorflow.python import ipu
from tqdm import tqdm

BATCH_SIZE = 4  # images in a mini-batch
MINI_BATCHES = 8  # for one update, on each replica
EXECUTIONS = 22  # in a launch: with 2 replicas about one pass over the training images
TEST_BATCH_SIZE = 45
TEST_MINI_BATCHES = 4  # on each replica: together they are the 360 test images


def make_stages(weights: Sequence[tf.Variable]) -> tuple[list[Callable], Callable, Callable]:
    """Returns the first three stages, the last one for training, and that for testing."""

    # A stage gets what the one before it returned, and the first one what the infeed has. Labels
    # are handed on to the last stage.
    def convolution_1(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.nn.relu(tf.nn.conv2d(images, weights[0], strides=1, padding="SAME")), labels

    def convolution_2(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.nn.relu(tf.nn.conv2d(x, weights[1], strides=1, padding="SAME"))
        return tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME"), labels

    def convolution_3(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.nn.relu(tf.nn.conv2d(x, weights[2], strides=1, padding="SAME"))
        x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
        return tf.reshape(x, [-1, 2 * 2 * 32]), labels

    def loss(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        logits = x @ weights[3]
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def accuracy(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        predicted = tf.argmax(x @ weights[3], axis=1, output_type=tf.int32)
        return tf.reduce_mean(tf.cast(tf.equal(predicted, labels), tf.float32))

    return [convolution_1, convolution_2, convolution_3], loss, accuracy


def main() -> None:
    """Configures 8 IPUs, trains, tests, and prints the compiled pipeline's report."""
    arguments = parse_arguments(__doc__)

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 8  # the stages take 4, so there are 2 replicas
    config.allow_recompute = arguments.recompute
    config.configure_ipu_system()

    train, test = (tf.data.Dataset.from_tensor_slices(arrays) for arrays in load_digits())
    train = train.cache().shuffle(2000, seed=0).repeat().batch(BATCH_SIZE, drop_remainder=True)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        glorot = tf.keras.initializers.GlorotUniform(seed=0)
        shapes = ([3, 3, 1, 16], [3, 3, 16, 32], [3, 3, 32, 32], [2 * 2 * 32, 10])
        weights = [tf.Variable(glorot(shape)) for shape in shapes]
        first_stages, loss_stage, accuracy_stage = make_stages(weights)
        momentum = tf.compat.v1.train.MomentumOptimizer(learning_rate=0.1, momentum=0.9)
        optimizer = ipu.optimizers.CrossReplicaOptimizer(momentum)
        images = ipu.ipu_infeed_queue.IPUInfeedQueue(train.prefetch(8))
        test_images = ipu.ipu_infeed_queue.IPUInfeedQueue(test.batch(TEST_BATCH_SIZE, True))
        losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        accuracies = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def minimize(loss: tf.Tensor) -> ipu.pipelining_ops.OptimizerFunctionOutput:
            return ipu.pipelining_ops.OptimizerFunctionOutput(
                optimizer, loss, compute_gradients_kwargs={"var_list": weights}
            )

        @tf.function(jit_compile=True)
        def train_program() -> None:
            ipu.pipelining_ops.pipeline(
                computational_stages=[*first_stages, loss_stage],
                gradient_accumulation_count=MINI_BATCHES,
                repeat_count=EXECUTIONS,
                infeed_queue=images,
                outfeed_queue=losses,
                optimizer_function=minimize,
                pipeline_schedule=arguments.schedule,
                outfeed_loss=True,
                reduction_method="mean",
            )

        @tf.function(jit_compile=True)
        def test_program() -> None:
            ipu.pipelining_ops.pipeline(
                computational_stages=[*first_stages, accuracy_stage],
                gradient_accumulation_count=TEST_MINI_BATCHES,
                infeed_queue=test_images,
                outfeed_queue=accuracies,
            )

        _ = images.initializer, test_images.initializer  # start reading
        with tqdm(total=arguments.launches * EXECUTIONS, unit="update") as progress:
            for _ in range(arguments.launches):
                strategy.run(train_program)
                progress.set_postfix(loss=f"{np.mean(losses.dequeue()):.4f}")
                progress.update(EXECUTIONS)
        strategy.run(test_program)
    print(f"test accuracy: {np.mean(accuracies.dequeue()):.2%}\n")
    print_report(arguments.picture)


if __name__ == "__main__":
    main()
