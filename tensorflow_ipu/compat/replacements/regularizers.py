"""Regularizers of `tensorflow.contrib.layers`."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1

Regularizer = Callable[[Any], Any]


def _checked(scale: float) -> float:
    """Returns a scale, after checks of its type and sign.

    Raises:
        ValueError: it is an integer or negative.
    """
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}. Give a float such as 1e-4.")
    if scale < 0.0:
        raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
    return scale


def _regularizer(
    scale: float, scope: str | None, name: str, penalty: Callable[[Any], Any]
) -> Regularizer:
    """Returns a function that scales a penalty; without a scale there is none."""
    if _checked(scale) == 0.0:
        return lambda _: None

    def regularize(weights: Any) -> tf.Tensor:
        with _v1.name_scope(scope, name, [weights]) as scoped:
            factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, penalty(weights), name=scoped)

    return regularize


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Returns a function of weights: `scale` times the sum of their absolute values.

    Args:
        scale: factor; 0.0 for no regularization.
        scope: name scope of the ops.
    """
    return _regularizer(scale, scope, "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Returns a function of weights: `scale` times half the sum of their squares.

    Args:
        scale: factor; 0.0 for no regularization.
        scope: name scope of the ops.
    """
    return _regularizer(scale, scope, "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer:
    """Returns the sum of `l1_regularizer` and `l2_regularizer`.

    Args:
        scale_l1: factor of the first.
        scale_l2: factor of the second.
        scope: name scope of the ops.
    """
    scope = scope or "l1_l2_regularizer"
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(
    regularizer_list: Sequence[Regularizer | None], scope: str | None = None
) -> Regularizer:
    """Returns the sum of regularizers.

    Args:
        regularizer_list: the regularizers; None stands for none.
        scope: name scope of the ops.
    """
    regularizers = [regularizer for regularizer in regularizer_list if regularizer is not None]

    def regularize(weights: Any) -> tf.Tensor | None:
        with _v1.name_scope(scope, "sum_regularizer", [weights]) as scoped:
            losses = [regularizer(weights) for regularizer in regularizers]
            losses = [loss for loss in losses if loss is not None]
            return tf.add_n(losses, name=scoped) if losses else None

    return regularize


def apply_regularization(
    regularizer: Regularizer, weights_list: Sequence[Any] | None = None
) -> tf.Tensor:
    """Returns the sum of the losses of weights, and collects it as a regularization loss.

    Args:
        regularizer: function of weights; its value has shape [].
        weights_list: the weights; else those in the collection `WEIGHTS`.

    Raises:
        ValueError: a loss has another shape.
    """
    if weights_list is None:
        weights_list = _v1.get_collection(_v1.GraphKeys.WEIGHTS)
    penalties = [regularizer(weights) for weights in weights_list]
    penalties = [penalty if penalty is not None else tf.constant(0.0) for penalty in penalties]
    for penalty in penalties:
        if penalty.shape.ndims != 0:
            raise ValueError(
                f"regularizer must return a scalar Tensor instead of a Tensor with rank "
                f"{penalty.shape.ndims}."
            )
    total = tf.add_n(penalties) if penalties else tf.constant(0.0)
    _v1.add_to_collection(_v1.GraphKeys.REGULARIZATION_LOSSES, total)
    return total
