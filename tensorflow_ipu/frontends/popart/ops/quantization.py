"""Numbers as integers with a scale and a zero point: QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import texts
from tensorflow_ipu.frontends.popart.ops.broadcasting import axis_of
from tensorflow_ipu.frontends.popart.ops.kinds import Gradient, op

_VERSIONS = (10, 13, 19, 21, 23)


@op("QuantizeLinear", *_VERSIONS, gradient=Gradient.NONE)
def _quantize(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    type_ = tf.uint8 if zero is None else zero.dtype
    if zero is None and output_dtype:
        type_ = datatypes.for_device(datatypes.of_onnx(output_dtype)).tf
    if not type_.is_integer:
        raise popart_exception(
            f"QuantizeLinear only makes integers. Received: {texts.type_name(type_)}"
        )
    whole = tf.round(
        tf.cast(x, tf.float32) / _spread(tf.cast(scale, tf.float32), x, axis, block_size)
    )
    if zero is not None:
        whole += _spread(tf.cast(zero, tf.float32), x, axis, block_size)
    return tf.cast(tf.clip_by_value(whole, type_.min, type_.max), type_)


@op("DequantizeLinear", *_VERSIONS)
def _dequantize(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    steps = tf.cast(x, tf.float32)
    if zero is not None:
        steps -= _spread(tf.cast(zero, tf.float32), x, axis, block_size)
    type_ = scale.dtype
    if output_dtype:
        type_ = datatypes.for_device(datatypes.of_onnx(output_dtype)).tf
    return tf.cast(steps * _spread(tf.cast(scale, tf.float32), x, axis, block_size), type_)


def _spread(values: Any, x: Any, axis: int, block_size: int) -> Any:
    """Returns scales of a tensor, of slices of an axis or of blocks along it, to broadcast."""
    if values.shape.num_elements() == 1:
        return tf.reshape(values, [])
    number = axis_of(axis, x.shape.rank)
    if block_size:
        repeated = tf.repeat(values, block_size, number)
        return tf.gather(repeated, tf.range(x.shape[number]), axis=number)
    return tf.reshape(values, [-1 if i == number else 1 for i in range(x.shape.rank)])
