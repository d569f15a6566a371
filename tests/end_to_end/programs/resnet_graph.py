"""Trains a ResNet as TensorFlow 1 programs for the IPU did: replicated, in float16, from an infeed.

Stochastic rounding, gradients of several mini-batches, loss scaling, options from the old functions
of `ipu.utils`.
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import ipu_compiler, loops, scopes, utils
from tensorflow.python.ipu.optimizers import (
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationReductionMethod,
)

CLASSES = 4
LOSS_SCALING = 128.0


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--gradients-to-accumulate", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    return parser.parse_args(arguments)


def dataset(batch_size: int) -> tf.data.Dataset:
    """Returns images whose brightest corner is their class."""
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, 64).astype(np.int32)
    images = random.normal(0, 0.1, [64, 8, 8, 3])
    for image, label in zip(images, labels):
        image[4 * (label // 2) :][:4, 4 * (label % 2) :][:, :4] += 1
    data = tf.data.Dataset.from_tensor_slices((images.astype(np.float16), labels))
    return data.repeat().batch(batch_size, drop_remainder=True)


def convolution(x: tf.Tensor, filters: int, strides: int = 1) -> tf.Tensor:
    """Convolves, with weights in the type of the inputs."""
    shape = [3, 3, x.shape[-1], filters]
    kernel = tf.get_variable("kernel", shape, x.dtype, tf.glorot_uniform_initializer(seed=1))
    return tf.nn.conv2d(x, kernel, strides, "SAME")


def normalise(x: tf.Tensor) -> tf.Tensor:
    """Normalises groups of channels."""
    return ipu.normalization_ops.group_norm(x, groups=2, training=True)


def block(x: tf.Tensor, filters: int, strides: int) -> tf.Tensor:
    """Is a residual block."""
    shortcut = x
    with tf.variable_scope("first"):
        y = tf.nn.relu(normalise(convolution(x, filters, strides)))
    with tf.variable_scope("second"):
        y = normalise(convolution(y, filters))
    if strides > 1:
        with tf.variable_scope("shortcut"):
            shortcut = convolution(x, filters, strides)
    return tf.nn.relu(y + shortcut)


def network(images: tf.Tensor) -> tf.Tensor:
    """Returns the logits."""
    with tf.variable_scope("stem"):
        x = convolution(images, 8)
    for index, (filters, strides) in enumerate([(8, 1), (16, 2)]):
        with tf.variable_scope(f"block_{index}"):
            x = block(x, filters, strides)
    x = tf.reduce_mean(x, axis=[1, 2])
    weights = tf.get_variable(
        "dense", [16, CLASSES], x.dtype, tf.glorot_uniform_initializer(seed=2)
    )
    return tf.matmul(x, weights)


def main(arguments: list[str] | None = None) -> np.ndarray:
    """Trains, and returns the losses: [mini-batches, replicas]."""
    options = parse_arguments(arguments)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset(options.batch_size))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def step(loss_sum: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        logits = tf.cast(network(images), tf.float32)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        optimizer = CrossReplicaGradientAccumulationOptimizerV2(
            tf.train.MomentumOptimizer(options.learning_rate / LOSS_SCALING, 0.9),
            num_mini_batches=options.gradients_to_accumulate,
            reduction_method=GradientAccumulationReductionMethod.MEAN,
        )
        train = optimizer.minimize(loss * LOSS_SCALING)
        return [loss_sum + loss, train, outfeed.enqueue(loss)]

    steps = options.iterations * options.gradients_to_accumulate
    with scopes.ipu_scope("/device:IPU:0"):
        train = ipu_compiler.compile(
            lambda: loops.repeat(steps, step, [tf.constant(0.0)], infeed), inputs=[]
        )
    losses = outfeed.dequeue()
    utils.move_variable_initialization_to_cpu()

    config = utils.create_ipu_config()
    config = utils.auto_select_ipus(config, options.replicas)
    config = utils.set_floating_point_behaviour_options(
        config, inv=True, div0=True, oflo=True, esr=True, nanoo=True
    )
    utils.configure_ipu_system(config)
    with tf.Session() as session:
        session.run([infeed.initializer, tf.global_variables_initializer()])
        session.run(train)
        return np.asarray(session.run(losses))


if __name__ == "__main__":
    tf.disable_v2_behavior()
    print(main().mean(axis=-1))
