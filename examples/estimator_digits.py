"""Trains a network on real digits with an estimator: train, evaluate and predict.

* `python examples/estimator_digits.py` uses `IPUEstimator` on one IPU.
* `--replicas 4` trains four replicas of the model, one on each of 4 IPUs.
* `--pipeline` uses `IPUPipelineEstimator`, with the network in stages on 4 IPUs. With
  `--replicas 2` there are two pipelines, on 8 IPUs.
* `--model-dir` keeps checkpoints and events for TensorBoard. The same command goes on from there.

Every weight update is made of 32 images in all cases, so they learn alike. docs/estimators.md
explains the parts.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from digits_data import load_digits
from tensorflow.python import ipu

BATCH_SIZE = 32  # images for one update of the weights, over everything that shares in it
UPDATES = 45  # in one run of the session: one pass over the training images
TEST_BATCH_SIZE = 8  # 45 of these are the 360 test images
STAGES = 4
MINI_BATCHES = 8  # that a pipeline takes for one update

Arguments = argparse.Namespace
ModeKeys = tf.estimator.ModeKeys


def weights(name: str, shape: list[int]) -> tf.Variable:
    """Returns a new variable."""
    return tf.get_variable(name, shape, initializer=tf.glorot_uniform_initializer(seed=0))


# The parts of the network, which are stages of the pipeline. Labels, if there are any, go along.
def part_1(images: tf.Tensor, *labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Makes 16 channels of images `[n, 8, 8, 1]`."""
    x = tf.nn.conv2d(images, weights("kernel_1", [3, 3, 1, 16]), strides=1, padding="SAME")
    return tf.nn.relu(x), *labels


def part_2(x: tf.Tensor, *labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Makes 32 channels of quarter the size."""
    x = tf.nn.conv2d(x, weights("kernel_2", [3, 3, 16, 32]), strides=1, padding="SAME")
    return tf.nn.max_pool2d(tf.nn.relu(x), ksize=2, strides=2, padding="SAME"), *labels


def part_3(x: tf.Tensor, *labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Makes 128 numbers for each image."""
    x = tf.nn.conv2d(x, weights("kernel_3", [3, 3, 32, 32]), strides=1, padding="SAME")
    x = tf.nn.max_pool2d(tf.nn.relu(x), ksize=2, strides=2, padding="SAME")
    return tf.reshape(x, [-1, 2 * 2 * 32]), *labels


def logits(x: tf.Tensor) -> tf.Tensor:
    """Makes one number for each digit."""
    return tf.matmul(x, weights("dense", [2 * 2 * 32, 10]))


def loss_part(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Is the last part in training."""
    return tf.losses.sparse_softmax_cross_entropy(labels, logits(x))


def test_part(x: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Is the last part in evaluation."""
    output = logits(x)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, output)
    return loss, tf.argmax(output, axis=1, output_type=tf.int32), labels


def class_part(x: tf.Tensor) -> tf.Tensor:
    """Is the last part in prediction."""
    return tf.argmax(logits(x), axis=1, output_type=tf.int32)


LAST_PARTS = {ModeKeys.TRAIN: loss_part, ModeKeys.EVAL: test_part, ModeKeys.PREDICT: class_part}


def make_optimizer(learning_rate: float) -> tf.train.Optimizer:
    """Returns an optimizer that takes the mean of the gradients of all replicas."""
    optimizer = tf.train.MomentumOptimizer(learning_rate, momentum=0.9)
    return ipu.cross_replica_optimizer.CrossReplicaOptimizer(optimizer)


def model_fn(
    features: tf.Tensor, labels: tf.Tensor | None, mode: str, params: dict[str, Any]
) -> tf.estimator.EstimatorSpec:
    """Is the model function of `IPUEstimator`."""
    values = [features] if labels is None else [features, labels]
    for part in (part_1, part_2, part_3):
        values = part(*values)
    output = LAST_PARTS[mode](*values)
    if mode == ModeKeys.TRAIN:
        train_op = make_optimizer(params["learning_rate"]).minimize(output)
        return tf.estimator.EstimatorSpec(mode, loss=output, train_op=train_op)
    if mode == ModeKeys.EVAL:
        loss, classes, labels = output
        metrics = {"accuracy": tf.metrics.accuracy(labels, classes)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    return tf.estimator.EstimatorSpec(mode, predictions=output)


def pipeline_model_fn(
    mode: str, params: dict[str, Any]
) -> ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec:
    """Is the model function of `IPUPipelineEstimator`."""

    def optimizer_function(loss: tf.Tensor) -> ipu.pipelining_ops.OptimizerFunctionOutput:
        optimizer = make_optimizer(params["learning_rate"])
        return ipu.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

    def eval_metrics_fn(loss: tf.Tensor, classes: tf.Tensor, labels: tf.Tensor) -> dict[str, Any]:
        return {"loss": tf.reduce_mean(loss), "accuracy": tf.metrics.accuracy(labels, classes)}

    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
        mode,
        computational_stages=[part_1, part_2, part_3, LAST_PARTS[mode]],
        gradient_accumulation_count=MINI_BATCHES,
        reduction_method="mean",
        optimizer_function=optimizer_function,
        eval_metrics_fn=eval_metrics_fn,
    )


def input_fn(mode: str, params: dict[str, Any]) -> tf.data.Dataset:
    """Returns batches for one replica, without end."""
    train, test = load_digits()
    dataset = tf.data.Dataset.from_tensor_slices(train if mode == ModeKeys.TRAIN else test).cache()
    if mode == ModeKeys.TRAIN:
        dataset = dataset.shuffle(2000, seed=0)
    if mode == ModeKeys.PREDICT:
        dataset = dataset.map(lambda images, labels: images)
    return dataset.repeat().batch(params["batch_size"], drop_remainder=True).prefetch(16)


def make_estimator(arguments: Arguments) -> tf.estimator.Estimator:
    """Returns an estimator with the IPUs that it needs."""
    shards, mini_batches = (STAGES, MINI_BATCHES) if arguments.pipeline else (1, 1)
    options = ipu.config.IPUConfig()
    options.auto_select_ipus = arguments.replicas * shards
    config = ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(
            iterations_per_loop=UPDATES * mini_batches,
            ipu_options=options,
            num_replicas=arguments.replicas,
            num_shards=shards,
        ),
        log_step_count_steps=1,
    )
    params = {"learning_rate": 0.03}
    if arguments.pipeline:
        params["batch_size"] = BATCH_SIZE // (MINI_BATCHES * arguments.replicas)
        estimator = ipu.ipu_pipeline_estimator.IPUPipelineEstimator
        return estimator(pipeline_model_fn, arguments.model_dir, config, params)
    # These are for all replicas together. What input_fn finds in params is for one.
    estimator = functools.partial(
        ipu.ipu_estimator.IPUEstimator,
        train_batch_size=BATCH_SIZE,
        eval_batch_size=TEST_BATCH_SIZE,
        predict_batch_size=TEST_BATCH_SIZE,
    )
    return estimator(model_fn, arguments.model_dir, config, params)


def main() -> None:
    """Trains, tests, and prints the run's memory and time on the chip."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training images")
    parser.add_argument("--replicas", type=int, choices=[1, 2, 4], default=1)
    parser.add_argument("--pipeline", action="store_true", help="split the model over 4 IPUs")
    parser.add_argument("--model-dir", help="folder for checkpoints, a temporary one if not given")
    arguments = parser.parse_args()

    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.INFO)
    estimator = make_estimator(arguments)
    steps = estimator.config.ipu_run_config.iterations_per_loop  # in one run of the session
    # Programs go with the graphs of the estimator; the profile keeps them for the summary.
    with ipu.profiler.profile():
        estimator.train(input_fn, max_steps=arguments.epochs * steps)
        result = estimator.evaluate(input_fn, steps=steps)
        predictions = estimator.predict(
            input_fn, yield_single_examples=False, num_predictions=steps
        )

        _, (_, labels) = load_digits()
        classes = np.ravel(list(predictions))[: len(labels)]
        print(f"\nfirst images: {labels[:10]}, predicted: {classes[:10]}")
        print(f"predicted right: {np.mean(classes == labels):.2%}")
        print(f"test accuracy: {result['accuracy']:.2%}, after {result['global_step']} steps\n")
        print(ipu.profiler.summary())


if __name__ == "__main__":
    main()
