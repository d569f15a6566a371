"""Builds the host graph of a model function for `export_saved_model`, without IPU programs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.estimators import evaluation
from tensorflow_ipu.estimators import spec as _spec


def host_spec(returned: Any, mode: str) -> tf.estimator.EstimatorSpec:
    """Returns what a model function returned as stock estimators expect it.

    Args:
        returned: an `IPUEstimatorSpec` or an `EstimatorSpec`.
        mode: the `tf.estimator.ModeKeys` it was called with.

    Raises:
        ValueError: If it is something else.
    """
    if isinstance(returned, tf.estimator.EstimatorSpec):
        return returned
    spec = _spec.from_stock(returned)
    return tf.estimator.EstimatorSpec(
        mode,
        predictions=spec.predictions,
        loss=spec.loss,
        train_op=spec.train_op if spec.host_call is None else _host_train_op(spec),
        eval_metric_ops=_host_metrics(spec),
        training_hooks=spec.training_hooks,
        evaluation_hooks=spec.evaluation_hooks,
        prediction_hooks=spec.prediction_hooks,
    )


def _host_train_op(spec: _spec.IPUEstimatorSpec) -> Any:
    """Returns the training op of a model with a host call."""
    with tf.control_dependencies([spec.train_op]):
        return _spec.host_operation(_spec.call_host_function(spec.host_call))


def _host_metrics(spec: _spec.IPUEstimatorSpec) -> Any:
    """Returns the metrics, for one iteration on one replica."""
    if spec.eval_metrics is None:
        return spec.eval_metric_ops
    function, tensors = spec.eval_metrics
    stacked = tf.nest.map_structure(lambda tensor: tf.expand_dims(tensor, 0), tensors)
    return evaluation.metrics_dict(_spec.call_host_function((function, stacked)))
