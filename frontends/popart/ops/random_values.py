"""Dropout and random tensors: functions of the seed of the session."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, Gradient, op

_NONE = Gradient.NONE


def _dropped(x: Any, mask_shape: Any, ratio: float, drops: bool, context: Any) -> list[Any]:
    """Returns a tensor with values dropped, the kept ones scaled, and the mask."""
    if not 0 <= ratio < 1:
        raise popart_exception(f"The ratio value {ratio} is not valid: it must be in [0, 1).")
    if not drops:
        return [tf.identity(x), tf.ones(mask_shape, tf.bool)]
    numbers = tf.random.stateless_uniform(mask_shape, context.services.seed())
    mask = numbers >= ratio
    scaled = x * tf.cast(1 / (1 - ratio), x.dtype)
    return [tf.where(mask, scaled, tf.zeros_like(x)), mask]


@op("Dropout", 1, 6)
def _dropout_6(x: Any, *, is_test: int = 0, ratio: float = 0.5, context: Any) -> Any:
    drops = context.is_training and not is_test
    return _dropped(x, x.shape, ratio, drops, context)[: context.output_count]


@op("Dropout", 7, 10)
def _dropout(x: Any, *, ratio: float = 0.5, context: Any) -> Any:
    return _dropped(x, x.shape, ratio, context.is_training, context)[: context.output_count]


@op("ShapedDropout", 1, domain=GRAPHCORE)
def _shaped_dropout(x: Any, *, shape: Any, ratio: float = 0.5, context: Any) -> Any:
    try:
        fits = np.broadcast_shapes(tuple(x.shape), tuple(shape)) == tuple(x.shape)
    except ValueError:
        fits = False
    if not fits:
        raise popart_exception(
            f"ShapedDropout got incompatible input tensor and dropout shape: {x.shape.as_list()} "
            f"and {list(shape)}."
        )
    return _dropped(x, list(shape), ratio, context.is_training, context)[0]


def _check_seed(seed: float | None) -> None:
    if seed is not None:
        raise popart_exception(
            "Optional seed attribute is not supported. Use session::setRandomSeed."
        )


def _float_type(number: int | None, like: Any = None) -> Any:
    """Returns the type of random numbers: of a number in ONNX files, or of a tensor."""
    type_ = datatypes.of_onnx(number).tf if number is not None else like.dtype
    if type_ not in (tf.float32, tf.float16):
        raise popart_exception("Random tensors are of the type FLOAT or FLOAT16.")
    return type_


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
