"""Checks what the pipeline functions of a user take and return in an estimator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.hooks import tensorflow_hooks


def without_labels(stages: Any, inputs: int, element: Any) -> Any:
    """Returns the stages of a pipeline that predicts.

    Args:
        stages: those of the user.
        inputs: how many arguments the first one gets before the element.
        element: the form of the dataset's elements.

    Returns:
        The same, except that the labels of (features, labels) are not passed to a first stage that
        only takes the features.
    """
    first = stages[0]
    is_pair = isinstance(element, tuple) and len(element) == 2
    if not is_pair or not callable(first) or accepts(first, inputs + 2):
        return stages
    if not accepts(first, inputs + 1):
        return stages

    @functools.wraps(first)
    def features_only(*arguments: Any) -> Any:
        return tensorflow_hooks.converted(first)(*arguments[:-1])

    return [features_only, *stages[1:]]


def accepts(function: Callable[..., Any], positional: int, names: Any = ()) -> bool:
    """Returns whether a function can be called with so many arguments.

    Args:
        function: the function.
        positional: number of positional arguments.
        names: names of the keyword arguments.
    """
    try:
        inspect.signature(function).bind(*range(positional), **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def call_metrics_function(
    function: Callable[..., Any], outputs: Any
) -> tuple[tf.Tensor, dict[str, Any]]:
    """Calls the metrics function of a user, on the host.

    Args:
        function: the `eval_metrics_fn`.
        outputs: what the last stage returned, stacked: a dict, a list or tuple, or one tensor.

    Returns:
        The loss, a scalar, and the other metrics by name.

    Raises:
        TypeError: If the function returns something else than a dict, or its loss is no tensor.
        KeyError: If there is no loss in it.
    """
    if isinstance(outputs, dict):
        returned = function(**outputs)
    else:
        returned = function(*outputs) if isinstance(outputs, (list, tuple)) else function(outputs)
    if not isinstance(returned, dict):
        raise TypeError(
            "The `eval_metrics_fn` must return a dict of (value, update_op) by name, and the "
            f"tensor 'loss'. Received: {type(returned).__name__}"
        )
    if "loss" not in returned:
        raise KeyError(
            "The dict returned from `eval_metrics_fn` must contain 'loss', a tensor. Received: "
            f"{sorted(map(str, returned))}"
        )
    metrics = dict(returned)
    loss = metrics.pop("loss")
    if not tf.is_tensor(loss):
        raise TypeError(
            "The 'loss' that `eval_metrics_fn` returns must be a tensor: the loss of the run. "
            f"Received: {loss!r}"
        )
    # One of each mini-batch is as good: this is what they are averaged to.
    return tf.reduce_mean(loss), metrics


def single_prediction(outputs: Any) -> Any:
    """Returns what the last stage of a pipeline returned, if that is one tensor or a dict.

    Args:
        outputs: a dict, a list or tuple, one tensor, or None for nothing; of tensors or their
            specifications.

    Raises:
        ValueError: If it is something else.
    """
    values = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    if len(values) != 1 or values[0] is None:
        raise ValueError(
            "The last computational stage must return exactly one prediction tensor, but got "
            f"{0 if outputs is None else len(values)}. To predict several, return them as a dict."
        )
    return values[0]
