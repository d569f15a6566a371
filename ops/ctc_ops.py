"""CTC (connectionist temporal classification): checked arguments, losses and beam search.

The losses follow Graves et al., "Connectionist Temporal Classification" (2006): the negative
logarithm of the probability of a label sequence, summed over its alignments with the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops, tensor_util

from tensorflow_ipu.runtime import native
from tensorflow_ipu.util.notices import warn_once

# --- Arguments ---

_FLOATS = (tf.float16, tf.float32)


def data_tensor(value: Any, argument: str) -> tf.Tensor:
    """Returns the data as a tensor.

    Args:
        value: float16 or float32 `[max_time, batch_size, num_classes]`.
        argument: its name, for errors.

    Raises:
        TypeError: it has another type.
        ValueError: it has another rank.
    """
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype not in _FLOATS:
        raise TypeError(
            f"{argument} must be of the type float16 or float32. Received: {tensor.dtype.name}. "
            "Cast it with tf.cast."
        )
    if tensor.shape.rank not in (None, 3):
        raise ValueError(
            f"{argument} must be of the shape [max_time, batch_size, num_classes]. "
            f"Received: {tensor.shape}"
        )
    return tensor


def loss_dtype(out_dtype: Any, data: tf.Tensor, argument: str) -> tf.DType:
    """Returns the type of a loss.

    Args:
        out_dtype: the user's type; None for the type of the data.
        data: the data.
        argument: name of the data, for the error.

    Raises:
        ValueError: it is neither float16 nor float32, or float16 for float32 data.
    """
    if out_dtype is None:
        return data.dtype
    dtype = tf.as_dtype(out_dtype)
    if dtype not in _FLOATS:
        raise ValueError(f"out_dtype must be float16 or float32. Received: out_dtype={dtype.name}")
    if dtype == tf.float16 and data.dtype == tf.float32:
        raise ValueError(
            f"out_dtype cannot be float16 when dtype of {argument} is float32. Use float32, or "
            f"cast {argument} with tf.cast."
        )
    return dtype


def blank_label(blank_index: Any, data: tf.Tensor, last: bool = False) -> int:
    """Returns the class of the blank label.

    Args:
        blank_index: the user's argument.
        data: the data.
        last: whether -1 stands for the last class.

    Raises:
        TypeError: it is not an int.
        ValueError: there is no such class, or -1 is given and the number of classes is unknown.
    """
    index = checked_integer(blank_index, "blank_index")
    classes = data.shape[2] if data.shape.rank is not None else None
    lowest = -1 if last else 0
    if index < lowest or (classes is not None and index >= classes):
        raise ValueError(
            f"blank_index must be in the range [{lowest}, "
            f"{'the number of classes' if classes is None else classes}). "
            f"Received: blank_index={blank_index!r}"
        )
    if index >= 0:
        return index
    if classes is None:
        raise ValueError(
            "blank_index=-1 means the last class, but the number of classes is not known in "
            f"advance: the data have the shape {data.shape}. Give the index itself."
        )
    return int(classes) - 1


def checked_integer(value: Any, argument: str) -> int:
    """Returns an argument that is a Python or NumPy integer.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{argument} must be an int. Received: {argument}={value!r}")
    return int(value)


def checked_lengths(value: Any, argument: str, data: tf.Tensor, limit: int | None) -> tf.Tensor:
    """Returns lengths as a tensor.

    Args:
        value: int32 `[batch_size]`.
        argument: its name, for errors.
        data: the data, which have the same batch size.
        limit: the greatest length; None when not known.

    Raises:
        TypeError: it has another type.
        ValueError: it has another shape, or is constant and out of range.
    """
    tensor = int32_tensor(value, argument)
    if not tensor.shape.is_compatible_with([_batch(data)]):
        raise ValueError(
            f"{argument} must be of the shape [batch_size], here [{_batch(data)}]. "
            f"Received: {tensor.shape}"
        )
    constant = tensor_util.constant_value(tensor)
    if constant is None:
        return tensor
    outside = constant[(constant < 0) | (constant > (np.inf if limit is None else limit))]
    if outside.size:
        raise ValueError(
            f"{argument} must be in the range [0, {'inf' if limit is None else limit}]. "
            f"Received: {outside[0]}"
        )
    return tensor


def label_tensor(
    value: Any, label_length: tf.Tensor, data: tf.Tensor, blank_index: int
) -> tf.Tensor:
    """Returns labels as a tensor.

    Args:
        value: int32 `[batch_size, max_label_length]`.
        label_length: how many of each entry count.
        data: the data.
        blank_index: the class that is no label.

    Raises:
        TypeError: it has another type.
        ValueError: it has another shape, or is constant and a label is no class or the blank.
    """
    tensor = int32_tensor(value, "labels")
    if not tensor.shape.is_compatible_with([_batch(data), None]):
        raise ValueError(
            f"labels must be of the shape [batch_size, max_label_length], here [{_batch(data)}, "
            f"max_label_length]. Received: {tensor.shape}"
        )
    constant, counts = (tensor_util.constant_value(t) for t in (tensor, label_length))
    if constant is None or counts is None or data.shape.rank is None:
        return tensor
    used = constant[np.arange(constant.shape[1]) < counts[:, np.newaxis]]
    classes = np.inf if data.shape[2] is None else data.shape[2]
    wrong = used[(used < 0) | (used >= classes) | (used == blank_index)]
    if wrong.size:
        raise ValueError(
            f"labels must be in the range [0, {classes}) and not the blank_index {blank_index}. "
            f"Received: {wrong[0]}"
        )
    return tensor


def int32_tensor(value: Any, argument: str) -> tf.Tensor:
    """Returns a value as a tensor of int32; lists and arrays of integers are converted.

    Raises:
        TypeError: it has another type.
    """
    tensor = value if tf.is_tensor(value) else tf.convert_to_tensor(_narrowed(value))
    if tensor.dtype != tf.int32:
        raise TypeError(
            f"{argument} must be of the type int32. Received: {tensor.dtype.name}. Cast it with "
            "tf.cast."
        )
    return tf.convert_to_tensor(tensor)


def _narrowed(value: Any) -> Any:
    """Returns NumPy's default integers as int32, which Python's are in TensorFlow anyway."""
    array = np.asarray(value)
    return array.astype(np.int32) if array.dtype == np.int64 else value


def _batch(data: tf.Tensor) -> int | None:
    return data.shape[1] if data.shape.rank is not None else None


# --- Kernels ---


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
        tensor = data_tensor(logits, "logits")
        dtype = loss_dtype(out_dtype, tensor, "logits")
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
        tensor = data_tensor(data, "data")
        dtype = loss_dtype(out_dtype, tensor, "data")
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
        tensor = data_tensor(logits, "logits")
        return _beam_search(
            tensor,
            _log_softmax(tensor),
            checked_lengths(logits_lengths, "logits_lengths", tensor, _steps(tensor)),
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
        tensor = data_tensor(log_probs, "log_probs")
        return _beam_search(
            tensor,
            tf.cast(tensor, tf.float32),
            checked_lengths(input_lengths, "input_lengths", tensor, _steps(tensor)),
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
    blank = blank_label(blank_index, log_probs)
    longest = int32_tensor(labels, "labels").shape
    limit = longest[1] if longest.rank == 2 else None
    counts = checked_lengths(label_length, "label_length", log_probs, limit)
    loss, _ = native.ops().ipu_ctc_loss(
        log_probs,
        label_tensor(labels, counts, log_probs, blank),
        counts,
        checked_lengths(data_length, length_argument, log_probs, _steps(log_probs)),
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
    blank = blank_label(blank_index, data, last=True)
    width, paths = (
        checked_integer(size, argument)
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
    """Scales the derivatives by the logits that the op computed beside the loss.

    They are no derivatives by the log probabilities, but what passes a log softmax unchanged.
    """
    derivatives = tf.raw_ops.PreventGradient(
        input=op.outputs[1],
        message="The CTC loss has no second derivative. Do not take the gradient of its gradient.",
    )
    return [derivatives * loss_gradient[tf.newaxis, :, tf.newaxis], None, None, None]


ops.NotDifferentiable("IpuCtcBeamSearch")
