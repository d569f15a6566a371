"""Trains a network on real digits as several processes, with Horovod's names (TensorFlow 1 style).

* `poprun --num-instances 2 python examples/distributed_graph.py` starts two processes, each with an
  IPU. So does `mpirun -np 2 python examples/distributed_graph.py`, where there is MPI.
* `python examples/distributed_graph.py` is the same program without others.

Each process has a program of its own. In the middle of each step the hosts add up the gradients.
docs/distributed.md explains the parts.
"""

from __future__ import annotations

import argparse
from typing import Any

import tensorflow.compat.v1 as tf
from digits_data import load_digits
from tensorflow.python import ipu
from tensorflow.python.ipu import horovod as hvd
from tensorflow.python.ipu.horovod import ipu_horovod_strategy

BATCH_SIZE = 32  # images for one update of the weights, over all processes
STEPS_PER_LAUNCH = 44  # one pass over the training images


def network(images: tf.Tensor) -> tf.Tensor:
    """Builds the logits `[n, 10]` for images `[n, 8, 8, 1]`."""
    with tf.variable_scope("network", reuse=tf.AUTO_REUSE, use_resource=True):
        glorot = tf.glorot_uniform_initializer(seed=0)
        x = tf.reshape(images, [-1, 64])
        hidden = tf.get_variable("hidden", [64, 64], initializer=glorot)
        weights = tf.get_variable("weights", [64, 10], initializer=glorot)
        bias = tf.get_variable("bias", [10], initializer=tf.zeros_initializer())
        return tf.matmul(tf.nn.relu(tf.matmul(x, hidden)), weights) + bias


def train_dataset() -> tf.data.Dataset:
    """Returns the batches of this process, without end."""
    dataset = tf.data.Dataset.from_tensor_slices(load_digits()[0]).shard(hvd.size(), hvd.rank())
    dataset = dataset.cache().shuffle(2000, seed=0).repeat()
    return dataset.batch(BATCH_SIZE // hvd.size(), drop_remainder=True)


def main() -> None:
    """Joins the other processes, trains and tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launches", type=int, default=20, help="passes over the training images")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    arguments = parser.parse_args()

    tf.disable_v2_behavior()
    hvd.init()
    strategy = ipu_horovod_strategy.IPUHorovodStrategy()
    test_images, test_labels = load_digits()[1]

    def train_step(images: tf.Tensor, labels: tf.Tensor) -> list[Any]:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=network(images)
        )
        # Gradients are summed over processes, so the loss is divided by the images of all.
        loss = tf.reduce_sum(losses) / BATCH_SIZE
        optimizer = tf.train.MomentumOptimizer(arguments.learning_rate, momentum=0.9)
        return [optimizer.minimize(loss), outfeed_queue.enqueue(loss)]

    def accuracy(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        predicted = tf.argmax(network(images), axis=1, output_type=tf.int32)
        return tf.reduce_mean(tf.cast(tf.equal(predicted, labels), tf.float32))

    def train() -> Any:
        return ipu.loops.repeat(STEPS_PER_LAUNCH, train_step, [], infeed_queue)

    def on_ipu(computation: Any, *inputs: tf.Tensor) -> Any:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(computation, inputs)

    with strategy.scope():
        infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(train_dataset())
        outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        train_op = strategy.run(on_ipu, [train])
        images = tf.placeholder(tf.float32, test_images.shape)
        labels = tf.placeholder(tf.int32, test_labels.shape)
        (accuracy_op,) = strategy.run(on_ipu, [accuracy, images, labels])
        # The loss of this process is its share of that of all.
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, tf.reduce_mean(outfeed_queue.dequeue()))

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    ipu.utils.move_variable_initialization_to_cpu()

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(infeed_queue.initializer)
        for launch in range(arguments.launches):
            session.run(train_op)
            result = session.run(loss)
            if hvd.rank() == 0:
                print(f"pass {launch + 1}: loss {result:.4f}")
        right = session.run(accuracy_op, {images: test_images, labels: test_labels})
    if hvd.rank() == 0:
        print(f"test accuracy: {right:.2%}\n")
        print(ipu.profiler.summary())


if __name__ == "__main__":
    main()
