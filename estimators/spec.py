"""`IPUEstimatorSpec`: the result of a model function of `IPUEstimator`."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common
from tensorflow_ipu.util.short_repr import shows

EstimatorSpec = tf.estimator.EstimatorSpec


class IPUEstimatorSpec(
    collections.namedtuple(
        "IPUEstimatorSpec",
        [
            "mode",
            "predictions",
            "loss",
            "train_op",
            "eval_metric_ops",
            "eval_metrics",
            "host_call",
            "training_hooks",
            "evaluation_hooks",
            "prediction_hooks",
        ],
    )
):
    """The result of a model function of `IPUEstimator`: an `EstimatorSpec` with host functions."""

    __slots__ = ()

    __repr__ = shows(lambda self: self._asdict())

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: dict[str, Any] | None = None,
        eval_metrics: tuple[Callable[..., Any], Any] | None = None,
        host_call: tuple[Callable[..., Any], list[Any]] | None = None,
        training_hooks: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> IPUEstimatorSpec:
        """Checks and keeps what a model function has built.

        Args:
            mode: the `tf.estimator.ModeKeys` it was called with.
            predictions: a tensor or a dict of tensors; required to predict.
            loss: a scalar; required to train and to evaluate.
            train_op: trains; required to train.
            eval_metric_ops: pairs of value and update op by name, run on the device.
            eval_metrics: a function and the tensors that it takes, a list or a dict. It runs on
                the host once for each run, with the tensors of all iterations stacked, and returns
                pairs of value and update op by name.
            host_call: a function and a list of the tensors that it takes. It is built on the
                host, after each run, and returns what trains.
            training_hooks: hooks for sessions that train.
            evaluation_hooks: hooks for sessions that evaluate.
            prediction_hooks: hooks for sessions that predict.

        Returns:
            The specification.

        Raises:
            ValueError: If something required is missing, or has the wrong shape or graph.
            TypeError: If something has the wrong type.
        """
        _check_host_function("host_call", host_call, (list,))
        _check_host_function("eval_metrics", eval_metrics, (list, dict))
        stock = EstimatorSpec(
            mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=eval_metric_ops,
            training_hooks=training_hooks,
            evaluation_hooks=evaluation_hooks,
            prediction_hooks=prediction_hooks,
        )
        return super().__new__(
            cls,
            mode,
            predictions=stock.predictions,
            loss=stock.loss,
            train_op=stock.train_op,
            eval_metric_ops=stock.eval_metric_ops,
            eval_metrics=eval_metrics,
            host_call=host_call,
            training_hooks=stock.training_hooks,
            evaluation_hooks=stock.evaluation_hooks,
            prediction_hooks=stock.prediction_hooks,
        )


def _check_host_function(name: str, value: Any, containers: tuple[type, ...]) -> None:
    """Checks a pair of a function and its tensors.

    Raises:
        TypeError: If it is no tuple, or a member has the wrong type.
        ValueError: If it is not a pair.
    """
    if value is None:
        return
    wanted = " or ".join(container.__name__ for container in containers)
    if not isinstance(value, tuple):
        raise TypeError(f"`{name}` must be a tuple. Received: {type(value).__name__}")
    if len(value) != 2:
        raise ValueError(
            f"`{name}` must have two elements: a function and a {wanted} of tensors. Received: "
            f"{len(value)} elements"
        )
    if not callable(value[0]):
        raise TypeError(
            f"The first element of `{name}` must be callable. Received: {type(value[0]).__name__}"
        )
    if not isinstance(value[1], containers):
        raise TypeError(
            f"The second element in `{name}` must be a {wanted} of tensors. Received: "
            f"{type(value[1]).__name__}"
        )


def from_stock(spec: Any) -> IPUEstimatorSpec:
    """Returns what a model function returned as an `IPUEstimatorSpec`.

    Args:
        spec: an `IPUEstimatorSpec` or an `EstimatorSpec`.

    Raises:
        ValueError: If it is something else.
    """
    if isinstance(spec, IPUEstimatorSpec):
        return spec
    if not isinstance(spec, EstimatorSpec):
        raise ValueError(
            "model_fn should return an EstimatorSpec or an IPUEstimatorSpec. "
            f"Received: {type(spec).__name__}"
        )
    common = set(IPUEstimatorSpec._fields) & set(spec._fields)
    return IPUEstimatorSpec(**{name: getattr(spec, name) for name in common})


def loss_that_moves(loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss of a launch as the host gets it.

    With synthetic data nothing leaves the device. What the variables are made of may well give no
    number, at which stock estimators would stop.

    Args:
        loss: result of the launch.
    """
    if not common.is_synthetic(SyntheticDataCategory.Outfeed):
        return loss
    with tf.device("/device:CPU:0"):
        return tf.zeros_like(loss)


def host_operation(returned: Any) -> Any:
    """Returns what the function of a `host_call` returned, for a session to run.

    Args:
        returned: an operation, a tensor, or a variable: what its `assign_add` returned.

    Raises:
        TypeError: If it is something else.
    """
    if isinstance(returned, tf.Variable):
        return tf.convert_to_tensor(returned)
    if not isinstance(returned, (tf.Operation, tf.Tensor)):
        raise TypeError(
            "The `host_call` return value must be Operation or Tensor. Return the operation that "
            f"is to run on the host. Received: {type(returned).__name__}"
        )
    return returned


def call_host_function(pair: tuple[Callable[..., Any], Any]) -> Any:
    """Calls the function of a pair of a function and its tensors."""
    function, tensors = pair
    return function(**tensors) if isinstance(tensors, dict) else function(*tensors)
