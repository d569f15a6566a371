"""8-bit floats: casts with a scale, and products of scaled operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.ops.linear import (
    conv_spec,
    convolved,
    product,
    product_spec,
    transposed,
    transposed_attributes,
    transposed_spec,
    window_attributes,
)
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor
from tensorflow_ipu.ops import float8
from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering


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


def lower_checked(lowering: GraphLowering, op: Op) -> None:
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
        GradientRule.CUT,
        lower=lower_checked,
    )
)


_FROM = register(
    OpKind(
        "Pow2ScaleCastFromFp8",
        lambda specs, form, data_type: [specs[0].with_dtype(data_type)],
        _from_float8,
        GradientRule.CUT,
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
    """Scales a tensor by a power of two and casts it to 8-bit floats. Overflow gives NaN.

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


def _scaled(spec: Callable[..., list[TensorSpec]]) -> Callable[..., list[TensorSpec]]:
    """Makes the shape rule of a float8 op from the rule of the same op on other floats."""

    def infer(specs: shapes.Specs, formats: Any, **attributes: Any) -> list[TensorSpec]:
        halves = [operand.with_dtype(dtypes.float16) for operand in specs[:2]]
        return spec(halves, **attributes)

    return infer


def _of_float8(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the computation of a float8 op: in float32, scaled, and rounded once."""

    def scaled(
        lhs: Any, rhs: Any, log2_scale: Any, formats: Sequence[dtypes.dtype], **attributes: Any
    ) -> Any:
        wide = [float8.decode(t, metadata(f)) for t, f in zip((lhs, rhs), formats)]
        return tf.cast(compute(*wide, **attributes) * power_of_two(log2_scale), tf.float16)

    return scaled


def _as_matmul(specs: shapes.Specs, **_: Any) -> dict[str, Any]:
    """Returns the op that a plan costs: a matrix product of 8-bit floats."""
    lhs, rhs = (spec.with_dtype(dtypes.float16) for spec in specs[:2])
    (result,) = product_spec([lhs, rhs])
    return {"type": op_names.FLOAT8_MATMUL, "flops": 2 * result.nelms * lhs.shape[-1]}


def _as_convolution(transpose: bool) -> Callable[..., dict[str, Any]]:
    """Makes the function that returns the op that a plan costs: a float8 convolution."""

    def composite(specs: shapes.Specs, groups: int, **attributes: Any) -> dict[str, Any]:
        spec = transposed_spec if transpose else conv_spec
        (result,) = _scaled(spec)(specs, groups=groups, **attributes)
        # Each element of the filter meets each position of the smaller of the two.
        positions = (specs[0] if transpose else result).nelms
        each = specs[1].nelms // specs[1].shape[0]
        strides = list(attributes["stride"])
        given = {
            "groups": groups,
            "transposed": transpose,
            "strides": strides,
            "dilations": list(attributes.get("dilation") or [1] * len(strides)),
        }
        return {
            "type": op_names.FLOAT8_CONVOLUTION,
            "flops": 2 * positions * each,
            "attributes": given,
        }

    return composite


_MATMUL, _CONV, _CONV_TRANSPOSE = (
    register(
        OpKind(
            name,
            _scaled(spec),
            _of_float8(compute),
            GradientRule.REFUSED,
            composite=composite,
            lower=lower_checked,
        )
    )
    for name, spec, compute, composite in (
        ("MatMulPow2Scaled", product_spec, product, _as_matmul),
        ("ConvPow2Scaled", conv_spec, convolved, _as_convolution(False)),
        ("ConvTransposePow2Scaled", transposed_spec, transposed, _as_convolution(True)),
    )
)


def matmul_pow2scaled(
    lhs: Tensor,
    rhs: Tensor,
    log2_scale: Tensor,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Returns the product of matrices of 8-bit floats times a power of two, in float16.

    Args:
        lhs: a tensor of one of the formats.
        rhs: a tensor of one of the formats.
        log2_scale: the power, an int32 scalar from -32 to 31.
        available_memory_proportion: the part of a tile's memory that the product may use.

    Raises:
        TypeError: If an operand is no 8-bit float, or `log2_scale` no int32.
        ValueError: If `log2_scale` is no scalar.
        popart.popart_exception: If shapes do not fit.
    """
    check_scale(log2_scale, lhs, rhs)
    return building.add(
        _MATMUL,
        lhs,
        rhs,
        log2_scale,
        formats=(lhs.dtype, rhs.dtype),
        memory_proportion=available_memory_proportion,
    )


def conv_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    available_memory_proportions: Sequence[float] | None = None,
    enable_conv_dithering: Sequence[int] | None = None,
) -> Tensor:
    """Returns the convolution of 8-bit floats times a power of two, in float16.

    Args:
        t: the tensor, of one of the formats.
        weight: the weight, of one of the formats.
        log2_scale: the power, an int32 scalar from -32 to 31.
        stride: as for `conv`.
        padding: as for `conv`.
        dilation: as for `conv`.
        groups: as for `conv`.
        pad_type: as for `conv`.
        available_memory_proportions: the part of a tile's memory that the op may use.
        enable_conv_dithering: whether to lay out convolutions from different tiles on.

    Raises:
        Exception: As `matmul_pow2scaled` and `conv` do.
    """
    check_scale(log2_scale, t, weight)
    return building.add(
        _CONV,
        t,
        weight,
        log2_scale,
        formats=(t.dtype, weight.dtype),
        **window_attributes(t, weight, stride, padding, dilation, pad_type),
        groups=groups,
        memory_proportions=available_memory_proportions,
        dithering=enable_conv_dithering,
    )


def conv_transpose_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    available_memory_proportions: Sequence[float] | None = None,
    enable_conv_dithering: Sequence[int] | None = None,
) -> Tensor:
    """Returns the transposed convolution of 8-bit floats times a power of two, in float16.

    Args:
        t: the tensor, of one of the formats.
        weight: the weight, of one of the formats.
        log2_scale: the power, an int32 scalar from -32 to 31.
        stride: as for `conv_transpose`.
        padding: as for `conv_transpose`.
        dilation: as for `conv_transpose`.
        groups: as for `conv_transpose`.
        pad_type: as for `conv_transpose`.
        output_padding: as for `conv_transpose`.
        output_shape: as for `conv_transpose`.
        available_memory_proportions: the part of a tile's memory that the op may use.
        enable_conv_dithering: whether to lay out convolutions from different tiles on.

    Raises:
        Exception: As `matmul_pow2scaled` and `conv_transpose` do.
    """
    check_scale(log2_scale, t, weight)
    return building.add(
        _CONV_TRANSPOSE,
        t,
        weight,
        log2_scale,
        formats=(t.dtype, weight.dtype),
        **transposed_attributes(
            t, weight, stride, padding, dilation, pad_type, output_padding, output_shape
        ),
        groups=groups,
        memory_proportions=available_memory_proportions,
        dithering=enable_conv_dithering,
    )
