"""8-bit floats: casts with a scale, and products and convolutions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor
from tensorflow_ipu.ops import float8

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering

# From this magnitude on a number is rounded to more than the largest of the format.
_OVERFLOWS = {dtypes.float8_143: 248.0, dtypes.float8_152: 61440.0}
_EXPONENT_SHIFT, _EXPONENT_BIAS = 23, 127
# The scales that the device takes.
_SCALES = range(-32, 32)
# Begins the error of a program with another scale.
OUT_OF_RANGE = "A log2_scale tensor is not in the range [-32, 32)"


def power_of_two(exponent: Any) -> Any:
    """Returns 2 to an integer from -126 to 127, exactly."""
    return tf.bitcast(tf.bitwise.left_shift(exponent + _EXPONENT_BIAS, _EXPONENT_SHIFT), tf.float32)


def metadata(dtype: dtypes.dtype) -> Any:
    """Returns the bit that says which of the two formats codes have."""
    return tf.constant(float8.F143_BIT if dtype is dtypes.float8_143 else 0, tf.uint8)


def _to_float8(t: Any, log2_scale: Any, data_type: dtypes.dtype) -> Any:
    scaled = tf.cast(t, tf.float32) * power_of_two(log2_scale)
    is_large = tf.abs(scaled) >= _OVERFLOWS[data_type]
    encoded = float8.encode(scaled, metadata(data_type))
    return tf.where(is_large, tf.constant(float8.NAN_CODE, tf.uint8), encoded)


def _from_float8(t: Any, log2_scale: Any, form: dtypes.dtype, data_type: dtypes.dtype) -> Any:
    decoded = tf.cast(float8.decode(t, metadata(form)), tf_type(data_type))
    return tf.cast(tf.cast(decoded, tf.float32) * power_of_two(log2_scale), decoded.dtype)


def lower_checked(lowering: Lowering, op: Op) -> None:
    """Puts an op whose last input is a scale into the program, with a check of the scale.

    The session option `throwIfLog2ScaleTensorNotInRange` leaves the check out. So does a constant
    that is in the range.

    Args:
        lowering: the lowering of the graph.
        op: the op.
    """
    *inputs, scale = lowering.read_inputs(op)
    wanted = op.graph.ir.session_options.value("throwIfLog2ScaleTensorNotInRange")
    if wanted and not _is_in_range(op.inputs[-1]):
        inside = (scale >= _SCALES.start) & (scale < _SCALES.stop)
        with scopes.outside_compilation_scope("log2_scale"):
            check = tf.raw_ops.Assert(condition=inside, data=[OUT_OF_RANGE])
        with tf.control_dependencies([check]):
            scale = tf.identity(scale)
    lowering.compute(op, [*inputs, scale])


def _is_in_range(scale: Tensor) -> bool:
    """Returns whether a scale is known to be in the range: a constant, also of all callers."""
    if isinstance(scale, Constant):
        return int(scale.data) in _SCALES
    if not any(scale is tensor for tensor in scale.graph.inputs):
        return False
    sites = scale.graph.call_sites
    position = next(i for i, tensor in enumerate(scale.graph.inputs) if tensor is scale)
    return all(
        not site.kind.is_loop
        and len(site.called) == 1
        and position not in site.modified
        and _is_in_range(site.inputs[position])
        for site in sites
    )


_TO = register(
    OpKind(
        "Pow2ScaleCastToFp8",
        lambda specs, data_type: [specs[0].with_dtype(data_type)],
        _to_float8,
        Gradient.CUT,
        lower=lower_checked,
    )
)
_FROM = register(
    OpKind(
        "Pow2ScaleCastFromFp8",
        lambda specs, form, data_type: [specs[0].with_dtype(data_type)],
        _from_float8,
        Gradient.CUT,
        lower=lower_checked,
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


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.DTypeLike) -> Tensor:
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
    data_type = dtypes.of_device(data_type)
    if data_type not in _OVERFLOWS or t.dtype not in (dtypes.float16, dtypes.float32):
        raise TypeError(
            f"Casting from {t.dtype} to {data_type} is not supported. Expected: float16 or float32 "
            "to popxl.float8_143 or popxl.float8_152."
        )
    name = f"{t.name}_{data_type.name}"
    return building.add(_TO, t, log2_scale, name=name, data_type=data_type)


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: dtypes.DTypeLike) -> Tensor:
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
    data_type = dtypes.of_device(data_type)
    if data_type not in (dtypes.float16, dtypes.float32):
        raise TypeError(
            f"Casting from {t.dtype} to {data_type} is not supported. Expected: popxl.float16 or "
            "popxl.float32."
        )
    name = f"{t.name}_{data_type.name}"
    return building.add(_FROM, t, log2_scale, name=name, form=t.dtype, data_type=data_type)


pow2scale_then_cast = pow2scale_cast_to_fp8
cast_then_pow2scale = pow2scale_cast_from_fp8
