"""Runs the stages of a pipeline one after the other on the host, for export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx

from tensorflow_ipu.estimators import pipeline_functions
from tensorflow_ipu.estimators.pipeline_spec import IPUPipelineEstimatorSpec
from tensorflow_ipu.hooks import tensorflow_hooks
from tensorflow_ipu.ops.pipeline import arguments, stages, update
from tensorflow_ipu.training import optimizer_steps

ModeKeys = tf.estimator.ModeKeys


def host_spec(
    spec: IPUPipelineEstimatorSpec, features: Any, labels: Any, mode: str
) -> tf.estimator.EstimatorSpec:
    """Builds the model of a pipeline in the graph of the host, for one mini-batch.

    Args:
        spec: what the model function returned.
        features: a tensor, or a dict of tensors.
        labels: the same, or None.
        mode: the `tf.estimator.ModeKeys` to build it for.

    Returns:
        What stock estimators expect of a model function.
    """
    outputs = _run_stages(spec, features, labels)
    if mode == ModeKeys.PREDICT:
        predictions = pipeline_functions.single_prediction(outputs)
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    if mode == ModeKeys.EVAL:
        stacked = tf.nest.map_structure(lambda tensor: tf.expand_dims(tensor, 0), outputs)
        loss, metrics = pipeline_functions.call_metrics_function(
            spec.eval_metrics_fn, [] if stacked is None else stacked
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    values, named = stages.as_arguments(outputs)
    result = _converted(spec.optimizer_function)(*values, **named)
    train_op = optimizer_steps.apply_gradients(
        result.opt,
        update._compute_gradients(result),
        {},
        *result.apply_gradients_args,
        **result.apply_gradients_kwargs,
    )
    return tf.estimator.EstimatorSpec(mode, loss=result.loss, train_op=train_op)


def _run_stages(spec: IPUPipelineEstimatorSpec, features: Any, labels: Any) -> Any:
    """Returns what the last stage returns."""
    inputs = arguments.input_list(spec.pipeline_op_kwargs.get("inputs"))
    values, named = _first_arguments(spec.computational_stages[0], inputs, features, labels)
    outputs: Any = None
    for stage in spec.computational_stages:
        members = stage if isinstance(stage, (list, tuple)) else (stage,)
        results = [_converted(member)(*values, **named) for member in members]
        outputs = results[0]
        if len(results) > 1:
            outputs = [v for result in results for v in stages.as_arguments(result)[0]]
        values, named = stages.as_arguments(outputs)
    return outputs


def _converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a user's function as AutoGraph makes it, as in a pipeline."""
    with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.ENABLED):
        return tensorflow_hooks.converted(function)


def _first_arguments(
    stage: Any, inputs: list[Any], features: Any, labels: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of the first stage: features by name, if it takes them so."""
    first = stage[0] if isinstance(stage, (list, tuple)) else stage
    if labels is not None:
        return [*inputs, features, labels], {}
    names = features if isinstance(features, dict) else ()
    by_name = bool(names) and all(isinstance(name, str) for name in names)
    if by_name and pipeline_functions.accepts(first, len(inputs), names):
        return inputs, dict(features)
    return [*inputs, features], {}
