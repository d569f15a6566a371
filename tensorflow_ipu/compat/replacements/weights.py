"""Initializers and regularizers of `tensorflow.contrib.layers`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# --- Initializers ---

_v1 = tf.compat.v1

Initializer = Callable[..., tf.Tensor]


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Initializer:
    """Returns an initializer whose variance is `factor / n`.

    Args:
        factor: see above.
        mode: meaning of `n`: `FAN_IN`, `FAN_OUT` or `FAN_AVG`, the mean of both.
        uniform: whether values are uniform; else they are normal, truncated at two standard
            deviations.
        seed: of the random numbers.
        dtype: floating-point type of the values.

    Raises:
        TypeError: `dtype` is no floating-point type, or `mode` is unknown.
    """
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError(f"Cannot create initializer for non-floating point type. Received: {dtype}")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    own_dtype = dtype

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        dtype = dtype or own_dtype
        whole = partition_info.full_shape if partition_info is not None else shape
        count = _fan(list(map(int, whole)), mode)
        if uniform:
            limit = math.sqrt(3.0 * factor / count)
            return _v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 makes up for the values that are cut off.
        stddev = math.sqrt(1.3 * factor / count)
        return _v1.truncated_normal(shape, 0.0, stddev, dtype, seed=seed)

    return initializer


def _fan(shape: list[int], mode: str) -> float:
    """Returns the number of inputs, of outputs, or the mean of both, of a weight."""
    inputs = float(shape[-2]) if len(shape) > 1 else float(shape[-1])
    outputs = float(shape[-1])
    for dimension in shape[:-2]:
        inputs *= dimension
        outputs *= dimension
    return {"FAN_IN": inputs, "FAN_OUT": outputs, "FAN_AVG": (inputs + outputs) / 2}[mode]


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Initializer:
    """Returns the initializer of Glorot and Bengio.

    Args:
        uniform: whether values are uniform, or normal.
        seed: of the random numbers.
        dtype: floating-point type of the values.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


def xavier_initializer_conv2d(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Initializer:
    """Returns the initializer of Glorot and Bengio, as `xavier_initializer` does."""
    return xavier_initializer(uniform, seed, dtype)


# --- Regularizers ---

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
