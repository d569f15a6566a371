"""Dropout and random tensors: functions of the seed of the session."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op

_NONE = GradientRule.NONE
_FLOATS = (tf.float32, tf.float16)


def dropped(x: Any, mask_shape: Any, ratio: float, drops: bool, context: Any) -> list[Any]:
    """Returns a tensor with values dropped, the kept ones scaled, and the mask.

    Args:
        x: the tensor.
        mask_shape: shape of the mask, which is broadcast.
        ratio: the share of values that are dropped.
        drops: whether any are.
        context: the interface of the session to its ops.

    Raises:
        popart_exception: If the ratio is not in [0, 1).
    """
    if not 0 <= ratio < 1:
        raise popart_exception(
            f"{operands.OP} ratio value {ratio:g} is not valid. Please use a value in the interval "
            "[0,1)"
        )
    if not drops:
        return [tf.identity(x), tf.ones(mask_shape, tf.bool)]
    numbers = tf.random.stateless_uniform(mask_shape, context.services.seed())
    mask = numbers >= ratio
    scaled = x * tf.cast(1 / (1 - ratio), x.dtype)
    return [tf.where(mask, scaled, tf.zeros_like(x)), mask]


@op("Dropout", 1, 6)
def _dropout_6(x: Any, *, is_test: int = 0, ratio: float = 0.5, context: Any) -> Any:
    drops = context.is_training and not is_test
    return dropped(x, x.shape, ratio, drops, context)[: context.output_count]


@op("Dropout", 7, 10)
def _dropout(x: Any, *, ratio: float = 0.5, context: Any) -> Any:
    return dropped(x, x.shape, ratio, context.is_training, context)[: context.output_count]


@op("ShapedDropout", 1, domain=GRAPHCORE)
def _shaped_dropout(x: Any, *, shape: Any, ratio: float = 0.5, context: Any) -> Any:
    try:
        fits = np.broadcast_shapes(tuple(x.shape), tuple(shape)) == tuple(x.shape)
    except ValueError:
        fits = False
    if not fits:
        raise popart_exception(
            f"The shape {operands.shape_text(shape)} does not broadcast to "
            f"{operands.shape_text(x.shape)}. "
            "ShapedDropout: incompatible input tensor and dropout shape."
        )
    return dropped(x, list(shape), ratio, context.is_training, context)[0]


def _check_seed(seed: float | None) -> None:
    if seed is not None:
        raise popart_exception(
            f"{operands.OP}: Optional seed attribute is not supported. Use session::setRandomSeed "
            "instead."
        )


def _float_type(number: int | None, like: Any = None) -> Any:
    """Returns the type of random numbers: of a number in ONNX files, or of a tensor."""
    type_ = datatypes.of_tf(like.dtype) if number is None else datatypes.of_onnx(number)
    if like is not None and type_.tf not in _FLOATS:
        raise popart_exception(
            f"{operands.OP}: Unsupported data type requested: {type_.name}. Expected FLOAT or "
            "FLOAT16."
        )
    if type_.tf is None:
        raise popart_exception(
            f"The data type {type_.name} is not supported in Poplar. Random tensors are FLOAT or "
            "FLOAT16."
        )
    if type_.tf not in _FLOATS:
        raise popart_exception(f"Random tensors are FLOAT or FLOAT16. Received: {type_.name}")
    return type_.tf


def _normal(shape: Any, dtype: Any, mean: float, scale: float, context: Any) -> Any:
    seed = context.services.seed()
    return tf.cast(tf.random.stateless_normal(shape, seed, mean, scale), dtype)


def _uniform(shape: Any, dtype: Any, low: float, high: float, context: Any) -> Any:
    seed = context.services.seed()
    return tf.cast(tf.random.stateless_uniform(shape, seed, low, high), dtype)


@op("RandomNormal", 1, gradient=_NONE)
def _random_normal(
    *,
    shape: Any,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: Any = None,
    context: Any,
) -> Any:
    _check_seed(seed)
    return _normal(list(shape), _float_type(dtype), mean, scale, context)


@op("RandomNormalLike", 1, gradient=_NONE)
def _random_normal_like(
    x: Any,
    *,
    dtype: Any = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: Any = None,
    context: Any,
) -> Any:
    _check_seed(seed)
    return _normal(x.shape, _float_type(dtype, x), mean, scale, context)


@op("RandomUniform", 1, gradient=_NONE)
def _random_uniform(
    *,
    shape: Any,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: Any = None,
    context: Any,
) -> Any:
    _check_seed(seed)
    return _uniform(list(shape), _float_type(dtype), low, high, context)


@op("RandomUniformLike", 1, gradient=_NONE)
def _random_uniform_like(
    x: Any,
    *,
    dtype: Any = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: Any = None,
    context: Any,
) -> Any:
    _check_seed(seed)
    return _uniform(x.shape, _float_type(dtype, x), low, high, context)
