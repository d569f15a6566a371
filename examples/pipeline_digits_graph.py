"""Trains a network that is split over 4 IPUs on real digits (TensorFlow 1 style).

The twin of pipeline_digits.py as a graph: `python examples/pipeline_digits_graph.py`. Each of the
two replicas takes 8 mini-batches through its four stages. Then their gradients are summed, the sums
are averaged over the replicas, and the weights are updated. One launch makes 22 updates.

All names here are those of the IPU's own API: `ipu.pipelining_ops`, `ipu.optimizers`, the queues.
Only pipeline_common.py, which prints the schedule, uses what the simulator adds.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf
from digits_data import load_digits
from pipeline_common import parse_arguments, print_report
from tensorflow.python import ipu
from tqdm import tqdm

BATCH_SIZE = 4  # images in a mini-batch
MINI_BATCHES = 8  # for one update, on each replica
EXECUTIONS = 22  # in a launch: with 2 replicas about one pass over the training images
TEST_BATCH_SIZE = 45
TEST_MINI_BATCHES = 4  # on each replica: together they are the 360 test images
LEARNING_RATE = 0.1 / MINI_BATCHES  # the gradient is a sum over mini-batches


def weights(name: str, shape: list[int]) -> tf.Variable:
    """Returns a variable: the same one whenever this is called with its name."""
    with tf.variable_scope("network", reuse=tf.AUTO_REUSE, use_resource=True):
        return tf.get_variable(name, shape, initializer=tf.glorot_uniform_initializer(seed=0))


# A stage gets what the one before it returned, and the first one what the infeed has. Labels are
# handed on to the last stage.
def convolution_1(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Is stage 0."""
    kernel = weights("kernel_1", [3, 3, 1, 16])
    return tf.nn.relu(tf.nn.conv2d(images, kernel, strides=1, padding="SAME")), labels


def convolution_2(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Is stage 1."""
    x = tf.nn.relu(tf.nn.conv2d(x, weights("kernel_2", [3, 3, 16, 32]), 1, "SAME"))
    return tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME"), labels


def convolution_3(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Is stage 2."""
    x = tf.nn.relu(tf.nn.conv2d(x, weights("kernel_3", [3, 3, 32, 32]), 1, "SAME"))
    x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
    return tf.reshape(x, [-1, 2 * 2 * 32]), labels


def loss(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Is stage 3 in training."""
    logits = tf.matmul(x, weights("dense", [2 * 2 * 32, 10]))
    return tf.losses.sparse_softmax_cross_entropy(labels, logits)


def accuracy(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Is stage 3 in inference."""
    logits = tf.matmul(x, weights("dense", [2 * 2 * 32, 10]))
    right = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels)
    return tf.reduce_mean(tf.cast(right, tf.float32))


def main() -> None:
    """Builds the graph, configures 8 IPUs, trains, tests, and prints facts of the pipeline."""
    arguments = parse_arguments(__doc__)

    tf.disable_v2_behavior()
    train, test = (tf.data.Dataset.from_tensor_slices(arrays) for arrays in load_digits())
    train = train.cache().shuffle(2000, seed=0).repeat().batch(BATCH_SIZE, drop_remainder=True)
    images = ipu.ipu_infeed_queue.IPUInfeedQueue(train.prefetch(8))
    test_images = ipu.ipu_infeed_queue.IPUInfeedQueue(test.batch(TEST_BATCH_SIZE, True))
    losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    accuracies = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def minimize(loss: tf.Tensor) -> ipu.pipelining_ops.OptimizerFunctionOutput:
        optimizer = tf.train.MomentumOptimizer(LEARNING_RATE, momentum=0.9)
        optimizer = ipu.optimizers.CrossReplicaOptimizer(optimizer)
        return ipu.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

    def train_program() -> tf.Operation:
        return ipu.pipelining_ops.pipeline(
            computational_stages=[convolution_1, convolution_2, convolution_3, loss],
            gradient_accumulation_count=MINI_BATCHES,
            repeat_count=EXECUTIONS,
            infeed_queue=images,
            outfeed_queue=losses,
            optimizer_function=minimize,
            pipeline_schedule=arguments.schedule,
        )

    def test_program() -> tf.Operation:
        return ipu.pipelining_ops.pipeline(
            computational_stages=[convolution_1, convolution_2, convolution_3, accuracy],
            gradient_accumulation_count=TEST_MINI_BATCHES,
            infeed_queue=test_images,
            outfeed_queue=accuracies,
        )

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        train_op = ipu.ipu_compiler.compile(train_program)
        test_op = ipu.ipu_compiler.compile(test_program)
    dequeue_losses, dequeue_accuracies = losses.dequeue(), accuracies.dequeue()
    ipu.utils.move_variable_initialization_to_cpu()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 8  # the stages take 4, so there are 2 replicas
    config.allow_recompute = arguments.recompute
    config.configure_ipu_system()

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([images.initializer, test_images.initializer])
        with tqdm(total=arguments.launches * EXECUTIONS, unit="update") as progress:
            for _ in range(arguments.launches):
                session.run(train_op)
                progress.set_postfix(loss=f"{np.mean(session.run(dequeue_losses)):.4f}")
                progress.update(EXECUTIONS)
        session.run(test_op)
        print(f"test accuracy: {np.mean(session.run(dequeue_accuracies)):.2%}\n")
    print_report(arguments.picture)


if __name__ == "__main__":
    main()
