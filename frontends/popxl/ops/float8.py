"""8-bit floats: casts with a scale, and products and convolutions of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.ops.f8 import codes

# From this magnitude on a number is rounded to more than the largest of the format.
_OVERFLOWS = {dtypes.float8_143: 248.0, dtypes.float8_152: 61440.0}
_EXPONENT_SHIFT, _EXPONENT_BIAS = 23, 127


def power_of_two(exponent: Any) -> Any:
    """Returns 2 to an integer from -126 to 127, exactly."""
    return tf.bitcast(tf.bitwise.left_shift(exponent + _EXPONENT_BIAS, _EXPONENT_SHIFT), tf.float32)


def metadata(dtype: dtypes.dtype) -> Any:
    """Returns the bit that says which of the two formats codes have."""
    return tf.constant(codes.F143_BIT if dtype is dtypes.float8_143 else 0, tf.uint8)


def _to_float8(t: Any, log2_scale: Any, data_type: dtypes.dtype) -> Any:
    scaled = tf.cast(t, tf.float32) * power_of_two(log2_scale)
    is_large = tf.abs(scaled) >= _OVERFLOWS[data_type]
    encoded = codes.encode(scaled, metadata(data_type))
    return tf.where(is_large, tf.constant(codes.NAN_CODE, tf.uint8), encoded)


def _from_float8(t: Any, log2_scale: Any, form: dtypes.dtype, data_type: dtypes.dtype) -> Any:
    decoded = tf.cast(codes.decode(t, metadata(form)), tf_type(data_type))
    return tf.cast(tf.cast(decoded, tf.float32) * power_of_two(log2_scale), decoded.dtype)


_TO = register(
    OpKind(
        "Pow2ScaleCastToFp8",
        lambda specs, data_type: [specs[0].with_dtype(data_type)],
        _to_float8,
        Gradient.CUT,
    )
)
_FROM = register(
    OpKind(
        "Pow2ScaleCastFromFp8",
        lambda specs, form, data_type: [specs[0].with_dtype(data_type)],
        _from_float8,
        Gradient.CUT,
    )
)


def check_scale(log2_scale: Tensor, *operands: Tensor) -> None:
    """Refuses other scales than integers, and operands that are no 8-bit floats."""
    building.check_in_graph(context.get_current_graph(), [*operands, log2_scale])
    for operand in operands:
        if not operand.dtype.is_float8:
            raise TypeError(
                f"{operand!r} must be of dtype popxl.float8_143 or popxl.float8_152. Cast it: "
                "ops.pow2scale_cast_to_fp8."
            )
    if log2_scale.rank:
        raise ValueError(f"log2_scale must be a scalar tensor. Received: {log2_scale!r}")
    if log2_scale.dtype is not dtypes.int32:
        raise TypeError(f"log2_scale must be of type popxl.int32. Received: {log2_scale!r}")


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Returns a tensor times a power of two as 8-bit floats; what is too large becomes NaN.

    Args:
        t: the tensor, of float16 or float32.
        log2_scale: the power, an int32 scalar from -32 to 31.
        data_type: the format.

    Raises:
        TypeError: If the format is none, or types differ from these.
        ValueError: If `log2_scale` is no scalar.
    """
    check_scale(log2_scale)
    building.check_in_graph(context.get_current_graph(), [t])
    if data_type not in _OVERFLOWS or t.dtype not in (dtypes.float16, dtypes.float32):
        raise TypeError(
            f"Casting from {t.dtype} to {data_type} is not supported. Expected: float16 or float32 "
            "to popxl.float8_143 or popxl.float8_152."
        )
    return building.add(_TO, t, log2_scale, data_type=data_type)


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Returns 8-bit floats in another type, times a power of two.

    Args:
        t: the tensor.
        log2_scale: the power, an int32 scalar from -32 to 31.
        data_type: float16 or float32.

    Raises:
        TypeError: If types differ from these.
        ValueError: If `log2_scale` is no scalar.
    """
    check_scale(log2_scale, t)
    if data_type not in (dtypes.float16, dtypes.float32):
        raise TypeError(
            f"Casting from {t.dtype} to {data_type} is not supported. Expected: popxl.float16 or "
            "popxl.float32."
        )
    return building.add(_FROM, t, log2_scale, form=t.dtype, data_type=data_type)


pow2scale_then_cast = pow2scale_cast_to_fp8
cast_then_pow2scale = pow2scale_cast_from_fp8
