"""Activations, softmax, CTC, multi-convolutions and losses: the public module `ipu.nn_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops.ctc.kernels import (
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_with_log_probs,
    ctc_loss,
    ctc_loss_v2,
    ctc_loss_with_log_probs,
    ctc_loss_with_logits,
)
from tensorflow_ipu.ops.nn.multi_conv import multi_conv
from tensorflow_ipu.ops.nn.sampled_losses import nce_loss, sampled_softmax_loss

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
