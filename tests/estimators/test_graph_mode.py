"""Programs that start with `disable_v2_behavior`, as those for TensorFlow 1 do."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]

CODE = """
import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()
from tests.support.models import estimator_models as models


def model_fn(features, labels, mode):
    x = tf.layers.batch_normalization(features, momentum=0.5, training=mode == "train")
    predictions = tf.layers.dense(x, 1)
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.mean_squared_error(labels, predictions)
    if mode == "eval":
        metrics = {"error": tf.metrics.mean_absolute_error(labels, predictions)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    rate = tf.train.exponential_decay(0.1, tf.train.get_or_create_global_step(), 10, 0.5)
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(optimizer)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


estimator = models.estimator(models.run_config(4, replicas=2, tf_random_seed=1), model_fn)
before = estimator.evaluate(models.repeated, steps=12)
estimator.train(models.repeated, steps=24)
after = estimator.evaluate(models.repeated, steps=12)
losses = [float(before["loss"]), float(after["loss"])]
print(json.dumps([losses, int(after["global_step"]), len(list(estimator.predict(models.dataset)))]))
"""


def test_a_model_of_layers_trains(run_program) -> None:
    output = run_program(CODE, cwd=ROOT).stdout
    (before, after), steps, predictions = json.loads(output.splitlines()[-1])
    assert after < 0.8 * before
    assert (steps, predictions) == (24, 24)
