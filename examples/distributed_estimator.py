"""Trains an estimator on real digits as several workers, which find each other by TF_CONFIG.

* `python examples/distributed_estimator.py --workers 2` starts two workers on this host, as the
  manager of a cluster would: each is this program with a TF_CONFIG of its own.
* `python examples/distributed_estimator.py` is the same program without others.

Every weight update is made of 32 images in all cases, so they learn alike. docs/distributed.md
explains the parts.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from typing import Any

import tensorflow.compat.v1 as tf
from digits_data import load_digits
from tensorflow.python import ipu

BATCH_SIZE = 32  # images for one update of the weights, over all workers
ModeKeys = tf.estimator.ModeKeys


def start_workers(count: int) -> int:
    """Starts this program once for each worker; returns the exit code of the first that fails."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    addresses = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    workers = []
    for index in range(count):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
        workers.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    return max(worker.wait() for worker in workers)


def model_fn(
    features: tf.Tensor, labels: tf.Tensor, mode: str, params: dict[str, Any]
) -> tf.estimator.EstimatorSpec:
    """Builds a network with one hidden layer, its loss, and the op of each mode."""
    glorot = tf.glorot_uniform_initializer(seed=0)
    x = tf.reshape(features, [-1, 64])
    hidden = tf.get_variable("hidden", [64, 64], initializer=glorot)
    weights = tf.get_variable("weights", [64, 10], initializer=glorot)
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, hidden)), weights)
    if mode == ModeKeys.EVAL:
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        classes = tf.argmax(logits, axis=1, output_type=tf.int32)
        metrics = {"accuracy": tf.metrics.accuracy(labels, classes)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    # Gradients are summed over workers, so the loss is divided by the images of all.
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_sum(losses) / BATCH_SIZE
    train_op = tf.train.MomentumOptimizer(0.1, momentum=0.9).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train_input(
    params: dict[str, Any], input_context: tf.distribute.InputContext | None = None
) -> tf.data.Dataset:
    """Returns the batches of this worker, without end."""
    dataset = tf.data.Dataset.from_tensor_slices(load_digits()[0])
    if input_context is not None:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    dataset = dataset.cache().shuffle(2000, seed=0).repeat()
    return dataset.batch(params["batch_size"], drop_remainder=True)


def test_input(params: dict[str, Any]) -> tf.data.Dataset:
    """Returns the test images."""
    dataset = tf.data.Dataset.from_tensor_slices(load_digits()[1])
    return dataset.repeat().batch(params["batch_size"], drop_remainder=True)


def main() -> None:
    """Joins the other workers, trains, and tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.workers > 1 and "TF_CONFIG" not in os.environ:
        sys.exit(start_workers(arguments.workers))

    tf.disable_v2_behavior()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy(resolver)
    options = ipu.config.IPUConfig()
    options.auto_select_ipus = 1
    config = ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=1, ipu_options=options),
        train_distribute=strategy,
    )
    with tempfile.TemporaryDirectory() as folder:
        estimator = ipu.ipu_estimator.IPUEstimator(
            model_fn, folder, config, train_batch_size=BATCH_SIZE, eval_batch_size=8
        )
        estimator.train(train_input, max_steps=arguments.steps)
        if resolver.task_id in (None, 0):
            result = estimator.evaluate(test_input, steps=45)
            print(f"test accuracy: {result['accuracy']:.2%}, after {result['global_step']} steps")


if __name__ == "__main__":
    main()
