"""Products and convolutions of 8-bit floats, scaled by a power of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu import op_names
from tensorflow_ipu.frontends.popxl import building, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.ops.float8 import (
    check_scale,
    lower_checked,
    metadata,
    power_of_two,
)
from tensorflow_ipu.frontends.popxl.ops.linear import product, product_spec
from tensorflow_ipu.frontends.popxl.ops.nn.convolution import (
    conv_spec,
    convolved,
    window_attributes,
)
from tensorflow_ipu.frontends.popxl.ops.nn.transposed import (
    transposed,
    transposed_attributes,
    transposed_spec,
)
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.ops import float8


def _scaled(spec: Callable[..., list[TensorSpec]]) -> Callable[..., list[TensorSpec]]:
    """Makes the rule of an op on 8-bit floats from that of the same op on other floats."""

    def infer(specs: shapes.Specs, formats: Any, **attributes: Any) -> list[TensorSpec]:
        halves = [operand.with_dtype(dtypes.float16) for operand in specs[:2]]
        return spec(halves, **attributes)

    return infer


def _of_float8(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Makes what an op on 8-bit floats computes: in float32, scaled, and rounded once."""

    def scaled(
        lhs: Any, rhs: Any, log2_scale: Any, formats: Sequence[dtypes.dtype], **attributes: Any
    ) -> Any:
        wide = [float8.decode(t, metadata(f)) for t, f in zip((lhs, rhs), formats)]
        return tf.cast(compute(*wide, **attributes) * power_of_two(log2_scale), tf.float16)

    return scaled


def _as_matmul(specs: shapes.Specs, **_: Any) -> dict[str, Any]:
    """What a plan takes the op for: a product of 8-bit floats."""
    lhs, rhs = (spec.with_dtype(dtypes.float16) for spec in specs[:2])
    (result,) = product_spec([lhs, rhs])
    return {"type": op_names.FLOAT8_MATMUL, "flops": 2 * result.nelms * lhs.shape[-1]}


def _as_convolution(transpose: bool) -> Callable[..., dict[str, Any]]:
    """Makes what a plan takes a convolution for: one of 8-bit floats."""

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
            Gradient.REFUSED,
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
