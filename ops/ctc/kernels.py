"""Calls the native kernels of CTC: losses and beam search.

The losses follow Graves et al., "Connectionist Temporal Classification" (2006): the negative
logarithm of the probability of a label sequence, summed over its alignments with the data.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from tensorflow_ipu.ops.ctc import arguments
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util.notices import warn_once


def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the loss of temporal classification, from logits.

    Args:
        labels: int32 `[batch_size, max_label_length]`; what is past a length is not looked at.
        logits: float16 or float32 `[max_time, batch_size, num_classes]`, not normalised.
        label_length: int32 `[batch_size]`, how many labels each entry has.
        logit_length: int32 `[batch_size]`, how many steps each entry has.
        blank_index: class of the blank.
        out_dtype: type of the loss: float16 or float32, but not float16 for float32 logits. By
            default that of the logits.
        name: name for the op.

    Returns:
        The loss `[batch_size]`, in arithmetic of float32. It is infinite, and has no gradient,
        where the labels do not fit into the steps.

    Raises:
        TypeError: labels or lengths are not int32, logits no floats, or the blank no int.
        ValueError: shapes do not match, the blank is no class, or lengths or labels that are
            constants are out of range; others end the program with an `InvalidArgumentError`.
    """
    with tf.name_scope(name or "ctc_loss"):
        tensor = arguments.data_tensor(logits, "logits")
        dtype = arguments.loss_dtype(out_dtype, tensor, "logits")
        log_probs = _log_softmax(tensor)
        loss = _loss(labels, log_probs, label_length, logit_length, blank_index, "logit_length")
        return tf.cast(loss, dtype)


def ctc_loss_with_log_probs(
    labels: Any,
    data: Any,
    label_length: Any,
    data_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the loss of temporal classification, from logarithms of probabilities.

    Args:
        labels: see `ctc_loss_v2`.
        data: float16 or float32 `[max_time, batch_size, num_classes]`, such as
            `tf.nn.log_softmax` gives.
        label_length: see `ctc_loss_v2`.
        data_length: int32 `[batch_size]`, how many steps each entry has.
        blank_index: see `ctc_loss_v2`.
        out_dtype: see `ctc_loss_v2`.
        name: name for the op.

    Returns:
        The loss `[batch_size]`; see `ctc_loss_v2`. Its gradient is that by logits whose log softmax
        the data are, as that of `ctc_loss_v2`: `exp(data)` less the probabilities of the classes
        given the labels. Going through a log softmax does not change it.

    Raises:
        TypeError: see `ctc_loss_v2`.
        ValueError: see `ctc_loss_v2`.
    """
    with tf.name_scope(name or "ctc_loss"):
        tensor = arguments.data_tensor(data, "data")
        dtype = arguments.loss_dtype(out_dtype, tensor, "data")
        log_probs = tf.cast(tensor, tf.float32)
        loss = _loss(labels, log_probs, label_length, data_length, blank_index, "data_length")
        return tf.cast(loss, dtype)


def ctc_loss(
    labels: Any,
    data: Any,
    label_length: Any,
    data_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """Computes `ctc_loss_with_log_probs`, and logs that the name is deprecated."""
    _log_deprecation("ctc_loss", "ctc_loss_with_log_probs")
    return ctc_loss_with_log_probs(
        labels, data, label_length, data_length, blank_index, out_dtype, name
    )


def ctc_loss_with_logits(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """Computes `ctc_loss_v2`, and logs that the name is deprecated."""
    _log_deprecation("ctc_loss_with_logits", "ctc_loss_v2")
    return ctc_loss_v2(labels, logits, label_length, logit_length, blank_index, out_dtype, name)


def ctc_beam_search_decoder(
    logits: Any,
    logits_lengths: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the most likely label sequences, from logits.

    Args:
        logits: float16 or float32 `[max_time, batch_size, num_classes]`, not normalised.
        logits_lengths: int32 `[batch_size]`, how many steps each entry has.
        beam_width: how many label sequences are kept after each step.
        top_paths: how many are returned.
        blank_index: class of the blank; -1 for the last one.
        name: name for the op.

    Returns:
        Logarithms of probabilities `[batch_size, top_paths]` in the type of the logits, as
        `tf.nn.ctc_beam_search_decoder` gives them, the most likely first; lengths, int32
        `[batch_size, top_paths]`; and labels, int32 `[batch_size, top_paths, max_time]`, filled up
        with the blank. Where there are fewer label sequences than `top_paths`, the others are
        empty, with minus infinity for the first.

    Raises:
        TypeError: an argument has another type.
        ValueError: shapes do not match, the blank is no class, `top_paths` is not between 1 and
            `beam_width`, or constant lengths are out of range.
    """
    with tf.name_scope(name or "ctc_beam_search"):
        tensor = arguments.data_tensor(logits, "logits")
        return _beam_search(
            tensor,
            _log_softmax(tensor),
            arguments.lengths(logits_lengths, "logits_lengths", tensor, _steps(tensor)),
            (beam_width, top_paths),
            blank_index,
        )


def ctc_beam_search_decoder_with_log_probs(
    log_probs: Any,
    input_lengths: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the most likely label sequences, from logarithms of probabilities.

    Args:
        log_probs: float16 or float32 `[max_time, batch_size, num_classes]`, such as
            `tf.nn.log_softmax` gives.
        input_lengths: int32 `[batch_size]`, how many steps each entry has.
        beam_width: see `ctc_beam_search_decoder`.
        top_paths: see `ctc_beam_search_decoder`.
        blank_index: see `ctc_beam_search_decoder`.
        name: name for the op.

    Returns:
        See `ctc_beam_search_decoder`.

    Raises:
        TypeError: see `ctc_beam_search_decoder`.
        ValueError: see `ctc_beam_search_decoder`.
    """
    with tf.name_scope(name or "ctc_beam_search"):
        tensor = arguments.data_tensor(log_probs, "log_probs")
        return _beam_search(
            tensor,
            tf.cast(tensor, tf.float32),
            arguments.lengths(input_lengths, "input_lengths", tensor, _steps(tensor)),
            (beam_width, top_paths),
            blank_index,
        )


def _log_softmax(logits: tf.Tensor) -> tf.Tensor:
    """Returns logarithms of probabilities, float32: sums over alignments need the range."""
    return tf.nn.log_softmax(tf.cast(logits, tf.float32))


def _steps(data: tf.Tensor) -> int | None:
    return data.shape[0] if data.shape.rank is not None else None


def _loss(
    labels: Any,
    log_probs: tf.Tensor,
    label_length: Any,
    data_length: Any,
    blank_index: Any,
    length_argument: str,
) -> tf.Tensor:
    blank = arguments.blank(blank_index, log_probs)
    longest = arguments.int32_tensor(labels, "labels").shape
    limit = longest[1] if longest.rank == 2 else None
    counts = arguments.lengths(label_length, "label_length", log_probs, limit)
    loss, _ = native.ops().ipu_ctc_loss(
        log_probs,
        arguments.label_tensor(labels, counts, log_probs, blank),
        counts,
        arguments.lengths(data_length, length_argument, log_probs, _steps(log_probs)),
        blank_index=blank,
    )
    return loss


def _beam_search(
    data: tf.Tensor,
    log_probs: tf.Tensor,
    lengths: tf.Tensor,
    sizes: tuple[Any, Any],
    blank_index: Any,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    blank = arguments.blank(blank_index, data, last=True)
    width, paths = (
        arguments.integer(size, argument)
        for size, argument in zip(sizes, ("beam_width", "top_paths"))
    )
    if not 1 <= paths <= width:
        raise ValueError(
            "top_paths must be at least 1 and less than or equal to beam_width. Received: "
            f"top_paths={paths}, beam_width={width}"
        )
    negative, counts, labels = native.ops().ipu_ctc_beam_search(
        log_probs, lengths, beam_width=width, top_paths=paths, blank_index=blank
    )
    return tf.cast(-negative, data.dtype), counts, labels


def _log_deprecation(old: str, new: str) -> None:
    warn_once("%s is deprecated and will be removed. Use %s instead.", old, new)


@ops.RegisterGradient("IpuCtcLoss")
def _loss_gradient(
    op: tf.Operation, loss_gradient: tf.Tensor, _: tf.Tensor
) -> list[tf.Tensor | None]:
    """The op computes the derivatives by logits beside the loss; they have none of their own.

    They are no derivatives by the log probabilities, but what passes a log softmax unchanged.
    """
    derivatives = tf.raw_ops.PreventGradient(
        input=op.outputs[1],
        message="The CTC loss has no second derivative. Do not take the gradient of its gradient.",
    )
    return [derivatives * loss_gradient[tf.newaxis, :, tf.newaxis], None, None, None]


ops.NotDifferentiable("IpuCtcBeamSearch")
