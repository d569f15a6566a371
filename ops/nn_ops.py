"""Activations, softmax, CTC, multi-convolutions and losses: the public module `ipu.nn_ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tensorflow_ipu.ops import ctc_ops, embedding_ops
from tensorflow_ipu.ops.ctc_ops import (
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_with_log_probs,
    ctc_loss,
    ctc_loss_v2,
    ctc_loss_with_log_probs,
    ctc_loss_with_logits,
)
from tensorflow_ipu.ops.multi_conv import multi_conv

__all__ = [
    "ctc_beam_search_decoder",
    "ctc_beam_search_decoder_with_log_probs",
    "ctc_loss",
    "ctc_loss_v2",
    "ctc_loss_with_log_probs",
    "ctc_loss_with_logits",
    "gelu",
    "hard_sigmoid",
    "multi_conv",
    "nce_loss",
    "sampled_softmax_loss",
    "softmax",
    "swish",
]
_FLOATS = (tf.float16, tf.bfloat16, tf.float32)


def gelu(x: Any, approximate: bool = True, name: str | None = None) -> tf.Tensor:
    """Returns the Gaussian error linear unit (Hendrycks and Gimpel, 2016).

    Args:
        x: a tensor of floats.
        approximate: `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` if true, otherwise
            `x / 2 (1 + erf(x / sqrt(2)))`.
        name: name for the op.

    Returns:
        A tensor like `x`. The arithmetic is that of float32: in float16 the cube of 41 is infinite.

    Raises:
        TypeError: `x` has another type.
    """
    with tf.name_scope(name or "gelu"):
        tensor = _floats(x, "gelu")
        return tf.cast(tf.nn.gelu(tf.cast(tensor, tf.float32), approximate), tensor.dtype)


def swish(x: Any, name: str | None = None) -> tf.Tensor:
    """Returns `x * sigmoid(x)` (Ramachandran, Zoph and Le, 2017).

    Args:
        x: a tensor of floats.
        name: name for the op.

    Returns:
        A tensor like `x`.

    Raises:
        TypeError: `x` has another type.
    """
    with tf.name_scope(name or "swish"):
        return tf.nn.silu(_floats(x, "swish"))


def hard_sigmoid(x: Any, name: str | None = None) -> tf.Tensor:
    """Returns `0.2 x + 0.5`, but 0 below `x = -2.5` and 1 above `x = 2.5`.

    Args:
        x: a tensor of floats.
        name: name for the op.

    Returns:
        A tensor like `x`.

    Raises:
        TypeError: `x` has another type.
    """
    with tf.name_scope(name or "hard_sigmoid"):
        return tf.clip_by_value(0.2 * _floats(x, "hard_sigmoid") + 0.5, 0.0, 1.0)


def softmax(x: Any, stable: bool = False, name: str | None = None) -> tf.Tensor:
    """Returns exponentials over the last axis, divided by their sum.

    Args:
        x: a tensor of floats of rank 1 or more.
        stable: whether the greatest element is subtracted first. Without, large elements overflow
            here as on the device: 12 in float16, 89 in float32.
        name: name for the op.

    Returns:
        A tensor like `x`.

    Raises:
        TypeError: `x` has another type.
        ValueError: `x` is a scalar.
    """
    with tf.name_scope(name or "softmax"):
        tensor = _floats(x, "softmax")
        if tensor.shape.rank == 0:
            raise ValueError("x must have a last axis: a rank of 1 or more. Received: a scalar")
        if stable:
            return tf.nn.softmax(tensor)
        exponentials = tf.exp(tensor)
        return exponentials / tf.reduce_sum(exponentials, -1, keepdims=True)


def _floats(x: Any, operation: str) -> tf.Tensor:
    """Returns a tensor of floats of the device."""
    tensor = tf.convert_to_tensor(x)
    if tensor.dtype not in _FLOATS:
        names = ", ".join(dtype.name for dtype in _FLOATS)
        raise TypeError(
            f"{operation} takes a tensor x of the types {names}. Received: {tensor.dtype.name}. "
            "Cast it with tf.cast."
        )
    return tensor


# --- Losses over sampled classes ---

# Both follow TensorFlow's functions of the same names (`tf.nn`), and the formulas of its "Candidate
# Sampling Algorithms Reference".

# TensorFlow's default for a graph's seed when only the op has one.
_DEFAULT_GRAPH_SEED = 87654321


class _Logits(NamedTuple):
    """Logits `[batch_size, num_true + num_sampled]` of the true classes and the sampled ones."""

    true: tf.Tensor
    sampled: tf.Tensor


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    name: str = "nce_loss",
) -> tf.Tensor:
    """Returns the loss of noise-contrastive estimation, for training.

    Args:
        weights: `[num_classes, dim]`, or a list of tensors that make it when joined.
        biases: `[num_classes]`.
        labels: int64 (or int32) `[batch_size, num_true]`, the true classes. The more frequent a
            class is the lower its number should be.
        inputs: `[batch_size, dim]`, float16 or float32.
        num_sampled: how many classes to sample, for the whole batch.
        num_classes: how many there are.
        num_true: how many true classes each example has.
        sampled_values: sampled classes and the expected counts of the true and the sampled ones,
            as a candidate sampler returns them. By default unique classes from a log-uniform
            distribution, others in each step and on each replica.
        name: name for the ops.

    Returns:
        The loss of each example `[batch_size]`.

    Raises:
        TypeError: a number is not an int.
        ValueError: shapes do not match, or there are fewer classes than are to be sampled.
    """
    with tf.name_scope(name):
        logits = _logits(
            _Classes(weights, biases, num_sampled, num_classes, num_true),
            labels,
            inputs,
            sampled_values,
            seed=0,
        )
        true = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.ones_like(logits.true) / num_true, logits=logits.true
        )
        false = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.zeros_like(logits.sampled), logits=logits.sampled
        )
        return tf.reduce_sum(true, 1) + tf.reduce_sum(false, 1)


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> tf.Tensor:
    """Returns the softmax loss over the true and some sampled classes, for training.

    Args:
        weights: see `nce_loss`.
        biases: see `nce_loss`.
        labels: see `nce_loss`.
        inputs: see `nce_loss`.
        num_sampled: see `nce_loss`.
        num_classes: see `nce_loss`.
        num_true: see `nce_loss`.
        sampled_values: see `nce_loss`.
        name: name for the ops.
        seed: with a seed the sampled classes are the same in each step, and others on each
            replica. None or 0: others in each step.

    Returns:
        The loss of each example `[batch_size]`. A sampled class that is a true class of the example
        counts as a false one all the same (`tf.nn.sampled_softmax_loss` leaves such out unless
        it is called with `remove_accidental_hits=False`).

    Raises:
        TypeError: see `nce_loss`.
        ValueError: see `nce_loss`.
    """
    with tf.name_scope(name):
        logits = _logits(
            _Classes(weights, biases, num_sampled, num_classes, num_true),
            labels,
            inputs,
            sampled_values,
            seed=0 if seed is None else ctc_ops.checked_integer(seed, "seed"),
        )
        targets = [tf.ones_like(logits.true) / num_true, tf.zeros_like(logits.sampled)]
        return tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.stop_gradient(tf.concat(targets, 1)), logits=tf.concat(logits, 1)
        )


class _Classes:
    """The table of classes, checked.

    Attributes:
        weights: `[num_classes, dim]`.
        biases: `[num_classes]`.
    """

    def __init__(
        self, weights: Any, biases: Any, num_sampled: Any, num_classes: Any, num_true: Any
    ) -> None:
        self.num_sampled = _at_least_one(num_sampled, "num_sampled")
        self.num_classes = _at_least_one(num_classes, "num_classes")
        self.num_true = _at_least_one(num_true, "num_true")
        self.weights, self.biases = _joined(weights), _joined(biases)
        for table, argument, shape in (
            (self.weights, "weights", [self.num_classes, None]),
            (self.biases, "biases", [self.num_classes]),
        ):
            if not table.shape.is_compatible_with(shape):
                raise ValueError(
                    f"{argument} must be of the shape {shape}: one row for each of the "
                    f"num_classes={self.num_classes}. Received: {table.shape}"
                )

    def rows(self, ids: tf.Tensor, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the weights `[len(ids), dim]` and biases `[len(ids)]` of classes."""
        ids = tf.cast(ids, tf.int32)
        return (
            tf.cast(embedding_ops.embedding_lookup(self.weights, ids), dtype),
            tf.cast(embedding_ops.embedding_lookup(self.biases, ids), dtype),
        )


def _at_least_one(value: Any, argument: str) -> int:
    number = ctc_ops.checked_integer(value, argument)
    if number < 1:
        raise ValueError(f"{argument} must be at least 1. Received: {argument}={value!r}")
    return number


def _joined(parts: Any) -> Any:
    """Returns a table that may be in parts as one tensor (or variable)."""
    if isinstance(parts, Sequence):
        return tf.concat([tf.convert_to_tensor(part) for part in parts], 0)
    return parts if isinstance(parts, tf.Variable) else tf.convert_to_tensor(parts)


def _true_classes(labels: Any, num_true: int) -> tf.Tensor:
    """Returns the labels as int64 `[batch_size, num_true]`."""
    tensor = tf.convert_to_tensor(labels)
    if tensor.dtype not in (tf.int32, tf.int64):
        raise TypeError(f"labels must be of the type int64. Received: {tensor.dtype.name}")
    if not tensor.shape.is_compatible_with([None, num_true]):
        raise ValueError(
            f"labels must be of the shape [batch_size, num_true], here [batch_size, {num_true}]. "
            f"Received: {tensor.shape}"
        )
    return tf.cast(tensor, tf.int64)


def _sample(true: tf.Tensor, classes: _Classes, seed: int) -> Any:
    """Returns unique classes and expected counts; the compiler gives the op the device's seed."""
    if classes.num_sampled > classes.num_classes:
        raise ValueError(
            "num_sampled must be at most num_classes, as each class is sampled once. Received: "
            f"num_sampled={classes.num_sampled}, num_classes={classes.num_classes}"
        )
    return tf.raw_ops.LogUniformCandidateSampler(
        true_classes=true,
        num_true=classes.num_true,
        num_sampled=classes.num_sampled,
        unique=True,
        range_max=classes.num_classes,
        seed=_DEFAULT_GRAPH_SEED if seed else 0,
        seed2=seed,
    )


def _logits(
    classes: _Classes,
    labels: Any,
    inputs: Any,
    sampled_values: Any,
    seed: int,
) -> _Logits:
    """Returns logits less the logarithms of the expected counts."""
    x = tf.convert_to_tensor(inputs)
    if not x.shape.is_compatible_with([None, classes.weights.shape[-1]]):
        raise ValueError(
            f"inputs must be of the shape [batch_size, dim], here [batch_size, "
            f"{classes.weights.shape[-1]}]. Received: {x.shape}"
        )
    true = _true_classes(labels, classes.num_true)
    values = _sample(true, classes, seed) if sampled_values is None else sampled_values
    sampled, true_count, sampled_count = (tf.stop_gradient(value) for value in values)
    sampled = tf.cast(sampled, tf.int64)
    weights, biases = classes.rows(tf.concat([tf.reshape(true, [-1]), sampled], 0), x.dtype)
    count = tf.size(true)
    rows = tf.reshape(weights[:count], [-1, classes.num_true, x.shape[-1]])
    true_logits = tf.reduce_sum(x[:, tf.newaxis] * rows, 2)
    true_logits += tf.reshape(biases[:count], [-1, classes.num_true])
    sampled_logits = tf.matmul(x, weights[count:], transpose_b=True) + biases[count:]
    true_logits -= tf.cast(tf.math.log(true_count), x.dtype)
    sampled_logits -= tf.cast(tf.math.log(sampled_count), x.dtype)
    return _Logits(true_logits, sampled_logits)
