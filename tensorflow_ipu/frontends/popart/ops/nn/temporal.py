"""Connectionist temporal classification: the loss, and the search for labels."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, Gradient, op
from tensorflow_ipu.frontends.popart.ops.losses import reduced
from tensorflow_ipu.ops import ctc_ops

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


@op("CtcBeamSearchDecoder", 1, domain=GRAPHCORE, gradient=Gradient.NONE)
def _ctc_beam_search(
    log_probs: Any, lengths: Any, *, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> Any:
    _check("logProbs", log_probs, 3, (tf.float32, tf.float16))
    _check("lengths", lengths, 1, _LENGTHS)
    found, counts, labels = ctc_ops.ctc_beam_search_decoder_with_log_probs(
        log_probs, tf.cast(lengths, tf.int32), beam_width, top_paths, blank
    )
    return [found, tf.cast(counts, tf.uint32), tf.cast(labels, tf.uint32)]
