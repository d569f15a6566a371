"""Forecasts sales of shops by an Estimator: embeddings of shop, weekday and promotion."""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

SHOPS = 12


def sales(samples: int = 128) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns features, and the logarithm of the sales: the sum of the features' effects."""
    random = np.random.default_rng(0)
    sizes = {"shop": SHOPS, "weekday": 7, "promotion": 2}
    features = {n: random.integers(0, size, samples).astype(np.int32) for n, size in sizes.items()}
    effects = {name: random.normal(0, 0.5, size) for name, size in sizes.items()}
    target = sum(effects[name][features[name]] for name in sizes)
    return features, np.asarray(target, np.float32)


def model_fn(features: Any, labels: tf.Tensor, mode: str, params: dict[str, Any]) -> Any:
    """Builds the model."""
    embedded = []
    for name, size in (("shop", SHOPS), ("weekday", 7), ("promotion", 2)):
        table = tf.get_variable(
            f"{name}_table", [size, 4], initializer=tf.random_normal_initializer(0, 0.1, seed=5)
        )
        embedded.append(ipu.embedding_ops.embedding_lookup(table, features[name]))
    x = tf.concat(embedded, axis=1)
    x = tf.layers.dense(x, 16, tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(1))
    x = tf.layers.dense(x, 1, kernel_initializer=tf.glorot_uniform_initializer(2))[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"sales": x})
    loss = tf.reduce_mean(tf.square(x - labels))
    if mode == tf.estimator.ModeKeys.EVAL:
        error = tf.metrics.mean_absolute_error(labels, x)
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"error": error})
    optimizer = tf.train.AdamOptimizer(params["learning_rate"])
    if params["replicas"] > 1:
        optimizer = ipu.optimizers.CrossReplicaOptimizer(optimizer)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


def main(arguments: list[str] | None = None) -> tuple[float, float, np.ndarray]:
    """Trains, and returns the loss before, the loss after, and predictions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--model-dir", default=None)
    options = parser.parse_args(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = options.replicas
    run_config = ipu.ipu_run_config.IPURunConfig(
        iterations_per_loop=16, num_replicas=options.replicas, ipu_options=config
    )
    estimator = ipu.ipu_estimator.IPUEstimator(
        model_fn,
        model_dir=options.model_dir or tempfile.mkdtemp(),
        config=ipu.ipu_run_config.RunConfig(ipu_run_config=run_config, tf_random_seed=1),
        params={"learning_rate": 0.02, "replicas": options.replicas},
    )

    def input_fn() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices(sales())
        return data.repeat().batch(options.batch_size, drop_remainder=True)

    estimator.train(input_fn, steps=16)
    if ipu.utils.use_synthetic_data_for(ipu.utils.SyntheticDataCategory.Outfeed):
        return 0.0, 0.0, np.zeros(1)  # a benchmark of training: nothing leaves the device
    before = estimator.evaluate(input_fn, steps=16)["loss"]
    estimator.train(input_fn, steps=options.steps)
    after = estimator.evaluate(input_fn, steps=16)["loss"]
    predictions = estimator.predict(lambda: input_fn().take(16 * options.replicas))
    return float(before), float(after), np.asarray(next(predictions)["sales"])


if __name__ == "__main__":
    tf.disable_v2_behavior()
    print(main())
