"""Losses."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, op

# The smallest probability whose logarithm is taken.
_EPSILON = {tf.float32: 1e-7, tf.float16: 6.104e-05}
_REDUCTIONS = ("Sum", "Mean", "NoReduction")


def reduced(values: Any, reduction: str, count: Any = None) -> Any:
    """Returns losses of elements as one.

    Args:
        values: the losses.
        reduction: "Sum", "Mean" or "NoReduction".
        count: how many the mean is over; all by default.

    Raises:
        popart_exception: If there is no such reduction.
    """
    if reduction not in _REDUCTIONS:
        raise popart_exception(
            f"Unsupported reduction {reduction}. Expected one of: {', '.join(_REDUCTIONS)}."
        )
    if reduction == "NoReduction":
        return values
    total = tf.reduce_sum(tf.cast(values, tf.float32))
    if reduction == "Mean":
        total /= tf.cast(values.shape.num_elements() if count is None else count, tf.float32)
    return tf.cast(total, values.dtype)


@op("IdentityLoss", 1, domain=GRAPHCORE)
def _identity_loss(x: Any, *, reduction: str = "Mean") -> Any:
    return reduced(x, reduction)


@op("L1", 1, domain=GRAPHCORE)
def _l1(x: Any, *, lambda_: float, reduction: str = "Mean") -> Any:
    if x.shape.rank == 0 and reduction != "NoReduction":
        raise popart_exception("L1 loss is not valid for rank-0 tensors.")
    return reduced(tf.cast(lambda_, x.dtype) * tf.abs(x), reduction)


@op("Nll", 1, domain=GRAPHCORE)
def _nll(
    probabilities: Any,
    labels: Any,
    *,
    reduction: str = "Mean",
    ignoreIndex: int | None = None,
    inputIsLogProbability: int = 0,
) -> Any:
    _check_labels(probabilities, labels)
    classes = probabilities.shape[-1]
    chosen = tf.one_hot(tf.cast(labels, tf.int32), classes, dtype=probabilities.dtype)
    if inputIsLogProbability:
        losses = -tf.reduce_sum(probabilities * chosen, -1)
    else:
        smallest = tf.cast(_EPSILON[probabilities.dtype], probabilities.dtype)
        picked = tf.reduce_sum(probabilities * chosen, -1)
        losses = -tf.math.log(tf.maximum(picked, smallest))
    if ignoreIndex is None:
        return reduced(losses, reduction)
    counted = tf.not_equal(tf.cast(labels, tf.int32), ignoreIndex)
    losses = tf.where(counted, losses, tf.zeros_like(losses))
    count = tf.maximum(tf.reduce_sum(tf.cast(counted, tf.int32)), 1)
    return reduced(losses, reduction, count)


def _check_labels(probabilities: Any, labels: Any) -> None:
    if not labels.dtype.is_integer:
        raise popart_exception(
            f"The labels of Nll have to be an integer data type. Received: {labels.dtype.name}"
        )
    if labels.shape.as_list() != probabilities.shape.as_list()[:-1]:
        raise popart_exception(
            f"The labels of Nll must have shape {probabilities.shape.as_list()[:-1]} to match all "
            f"but the final dimension of the probabilities. Received: {labels.shape.as_list()}"
        )
