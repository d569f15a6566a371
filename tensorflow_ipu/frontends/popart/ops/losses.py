"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import texts
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


@op("IdentityLoss", 1, domain=GRAPHCORE, folds=True)
def _identity_loss(x: Any, *, reduction: str = "Mean") -> Any:
    return reduced(x, reduction)


@op("L1", 1, domain=GRAPHCORE)
def _l1(x: Any, *, lambda_: float, reduction: str = "Mean") -> Any:
    if x.shape.rank == 0:
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
    context: Any,
) -> Any:
    _check_labels(probabilities, labels)
    classes = probabilities.shape[-1]
    chosen = tf.one_hot(tf.cast(labels, tf.int32), classes, dtype=probabilities.dtype)
    logits = None if inputIsLogProbability else _logits(context)
    if inputIsLogProbability:
        losses = -tf.reduce_sum(probabilities * chosen, -1)
    elif logits is None:
        losses = _likelihoods(probabilities, chosen)
    else:
        losses = _fused(logits, probabilities, chosen)
    if ignoreIndex is None:
        return reduced(losses, reduction)
    counted = tf.not_equal(tf.cast(labels, tf.int32), ignoreIndex)
    losses = tf.where(counted, losses, tf.zeros_like(losses))
    count = tf.maximum(tf.reduce_sum(tf.cast(counted, tf.int32)), 1)
    return reduced(losses, reduction, count)


def _likelihoods(probabilities: Any, chosen: Any) -> Any:
    """Returns negative logarithms of the probabilities of labels."""
    smallest = tf.cast(_EPSILON[probabilities.dtype], probabilities.dtype)
    return -tf.math.log(tf.maximum(tf.reduce_sum(probabilities * chosen, -1), smallest))


def _logits(context: Any) -> Any:
    """Returns what the probabilities are the softmax of, if the gradient is to go straight to it.

    It does not if the gradient of the probabilities is wanted itself.
    """
    name = context.node.input[0]
    made = context.maker(name)
    if made is None or made.node.op_type != "Softmax" or made.node.domain not in ("", "ai.onnx"):
        return None
    if not context.numerics.fuses_softmax or name in context.differentiated:
        return None
    logits = made.tensor(made.node.input[0])
    axis = next((a.i for a in made.node.attribute if a.name == "axis"), 1)
    classes = logits.shape.as_list()[axis:]
    return logits if np.prod(classes) == logits.shape[-1] else None


def _fused(logits: Any, probabilities: Any, chosen: Any) -> Any:
    """Returns negative log-likelihoods, whose gradient by the logits is `p - chosen`."""
    probabilities = tf.stop_gradient(probabilities)

    @tf.custom_gradient
    def computed(_: Any) -> Any:
        def backward(above: Any) -> Any:
            return (probabilities - chosen) * above[..., tf.newaxis]

        return _likelihoods(probabilities, chosen), backward

    return computed(logits)


def _check_labels(probabilities: Any, labels: Any) -> None:
    if not labels.dtype.is_integer:
        raise popart_exception(
            f"The labels of Nll have to be an integer data type. Received: {labels.dtype.name}"
        )
    if labels.shape.as_list() != probabilities.shape.as_list()[:-1]:
        raise popart_exception(
            f"The label tensor ({texts.info(labels)}) must have shape "
            f"{texts.shape(probabilities.shape[:-1])} to match all but the final dimension of the "
            f"probabilities tensor ({texts.info(probabilities)})"
        )
