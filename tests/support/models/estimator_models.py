"""A linear model for estimators, and its results in a plain session on the CPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys

BATCH = 4
FEATURES = 3
_generator = np.random.default_rng(1)
X = _generator.normal(size=(24, BATCH, FEATURES)).astype(np.float32)
Y = (X @ np.float32([[1.0], [-2.0], [0.5]]) + 0.1 * _generator.normal(size=(24, BATCH, 1))).astype(
    np.float32
)


def dataset(labels: bool = True) -> tf.data.Dataset:
    """Returns the 24 batches, once."""
    return tf.data.Dataset.from_tensor_slices((X, Y) if labels else X)


def repeated() -> tf.data.Dataset:
    """Returns the batches without end."""
    return dataset().repeat()


def run_config(
    iterations: int = 1, replicas: int = 1, shards: int = 1, **kwargs: Any
) -> ipu.ipu_run_config.RunConfig:
    """Returns a configuration with as many IPUs as are needed.

    Args:
        iterations: `iterations_per_loop`.
        replicas: `num_replicas`.
        shards: `num_shards`.
        **kwargs: Further arguments of `RunConfig`; `ipu` has those of `IPURunConfig`.
    """
    options = ipu.config.IPUConfig()
    options.auto_select_ipus = replicas * shards
    ipu_run_config = ipu.ipu_run_config.IPURunConfig(
        iterations_per_loop=iterations,
        num_replicas=replicas,
        num_shards=shards,
        **{"ipu_options": options, **kwargs.pop("ipu", {})},
    )
    kwargs.setdefault("log_step_count_steps", None)
    return ipu.ipu_run_config.RunConfig(ipu_run_config=ipu_run_config, **kwargs)


def prediction(features: Any) -> tf.Tensor:
    """Returns the linear function of [batch, 3], which has 4 variables: [batch, 1]."""
    if isinstance(features, dict):
        features = features["x"]
    kernel = tf1.get_variable("kernel", [FEATURES, 1], initializer=tf1.constant_initializer(0.1))
    bias = tf1.get_variable("bias", [1], initializer=tf1.zeros_initializer())
    return tf.matmul(features, kernel) + bias


def squared_error(labels: Any, predictions: Any) -> tf.Tensor:
    """Returns the mean squared error, a scalar."""
    return tf.reduce_mean(tf.square(predictions - labels))


def sgd() -> tf1.train.Optimizer:
    """Returns the optimizer of models that ask for no other."""
    return tf1.train.GradientDescentOptimizer(0.05)


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> tf.estimator.EstimatorSpec:
    """A model function. `params` may have the key "optimizer": a function that returns one."""
    predictions = prediction(features)
    if mode == ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": predictions, "x": features})
    loss = squared_error(labels, predictions)
    if mode == ModeKeys.EVAL:
        metrics = {"error": tf1.metrics.mean_absolute_error(labels, predictions)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(params.get("optimizer", sgd)())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


def estimator(config: Any = None, model: Callable[..., Any] = model_fn, **kwargs: Any) -> Any:
    """Returns an `IPUEstimator`.

    Args:
        config: its configuration, or that of one replica and one iteration.
        model: its model function.
        **kwargs: further arguments.
    """
    if "params" in inspect.signature(model).parameters:
        kwargs.setdefault("params", {})
    return ipu.ipu_estimator.IPUEstimator(model, config=config or run_config(), **kwargs)


class Losses(tf1.train.SessionRunHook):
    """Keeps the loss of each run of a session that trains, in `values`."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._loss: Any = None

    def begin(self) -> None:
        (self._loss,) = tf1.get_collection(tf1.GraphKeys.LOSSES)

    def before_run(self, run_context: Any) -> tf1.train.SessionRunArgs:
        return tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.values.append(float(run_values.results))


def batches(steps: int, replicas: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the batches of all replicas together in each step: `[R, batch, ...]`."""
    for step in range(steps):
        which = np.arange(step * replicas, (step + 1) * replicas) % len(X)
        yield X[which], Y[which]


def train_in_session(
    optimizer: Callable[[], tf1.train.Optimizer], steps: int, replicas: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Trains the model with plain TensorFlow on the CPU, on the batches of all replicas at once.

    Returns:
        The variables by name, and the loss of each step and replica: [steps, R].
    """
    losses = []
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [replicas, BATCH, FEATURES])
        y = tf1.placeholder(tf.float32, [replicas, BATCH, 1])
        predictions = tf.reshape(prediction(tf.reshape(x, [-1, FEATURES])), y.shape)
        loss_of_replica = tf.reduce_mean(tf.square(predictions - y), axis=[1, 2])
        train_op = optimizer().minimize(tf.reduce_mean(loss_of_replica))
        session.run(tf1.global_variables_initializer())
        for batch_x, batch_y in batches(steps, replicas):
            feed = {x: batch_x, y: batch_y}
            losses.append(session.run(loss_of_replica, feed))
            session.run(train_op, feed)
        variables = {v.op.name: session.run(v) for v in tf1.global_variables()}
    return variables, np.array(losses)


def predict_with_numpy(weights: Any, x: np.ndarray) -> np.ndarray:
    """Returns an estimator's expected predictions for batches: [..., 1]."""
    return x @ weights.get_variable_value("kernel") + weights.get_variable_value("bias")
