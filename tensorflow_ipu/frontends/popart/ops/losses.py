"""Losses, and connectionist temporal classification with its search for labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op
from tensorflow_ipu.ops import ctc_ops

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
    """Returns the logits of the probabilities, if the gradient bypasses the softmax.

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
    """Returns negative log-likelihoods; their gradient by the logits is `p - chosen`."""
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
            f"The label tensor ({operands.tensor_text(labels)}) must have shape "
            f"{operands.shape_text(probabilities.shape[:-1])} to match all but the final dimension "
            "of the "
            f"probabilities tensor ({operands.tensor_text(probabilities)})"
        )


_LENGTHS = (tf.int32, tf.uint32)


def _check(told: str, tensor: Any, rank: int, types: Any) -> None:
    """Refuses inputs of other ranks or types."""
    if tensor.shape.rank != rank:
        raise popart_exception(
            f"Unsupported shape for input {told}: {tensor.shape.as_list()}. Expected a rank of "
            f"{rank}."
        )
    if tensor.dtype not in types:
        names = ", ".join(type_.name for type_ in types)
        raise popart_exception(
            f"Unsupported data type for input {told}: {tensor.dtype.name}. Expected one "
            f"of: {names}."
        )


@op("Ctc", 1, domain=GRAPHCORE)
def _ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    *,
    reduction: str = "Mean",
    blank: int = 0,
    outDataType: str = "UNDEFINED",
    zeroInfinity: int = 0,
) -> Any:
    _check("logProbs", log_probs, 3, (tf.float32, tf.float16))
    _check("targets", targets, 2, _LENGTHS)
    _check("inputLengths", input_lengths, 1, _LENGTHS)
    _check("targetLengths", target_lengths, 1, _LENGTHS)
    counts = tf.cast(target_lengths, tf.int32)
    wide = tf.cast(log_probs, tf.float32)
    losses = ctc_ops.ctc_loss_with_log_probs(
        tf.cast(targets, tf.int32), wide, counts, tf.cast(input_lengths, tf.int32), blank
    )
    if zeroInfinity:
        losses = tf.where(tf.math.is_finite(losses), losses, tf.zeros_like(losses))
    if reduction == "Mean":
        losses = losses / tf.cast(tf.maximum(counts, 1), losses.dtype)
    type_ = log_probs.dtype
    if outDataType != "UNDEFINED":
        type_ = datatypes.for_device(datatypes.named(outDataType)).tf
    result = tf.cast(reduced(losses, reduction), type_)
    # The second output is for the gradient of the original; nothing takes it here.
    return [result, tf.stop_gradient(tf.zeros_like(log_probs))]


@op("CtcBeamSearchDecoder", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _ctc_beam_search(
    log_probs: Any, lengths: Any, *, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> Any:
    _check("logProbs", log_probs, 3, (tf.float32, tf.float16))
    _check("lengths", lengths, 1, _LENGTHS)
    found, counts, labels = ctc_ops.ctc_beam_search_decoder_with_log_probs(
        log_probs, tf.cast(lengths, tf.int32), beam_width, top_paths, blank
    )
    return [found, tf.cast(counts, tf.uint32), tf.cast(labels, tf.uint32)]
