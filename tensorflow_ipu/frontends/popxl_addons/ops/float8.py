"""Formats of 8-bit floats, and the scales with which tensors fit into them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = [
    "FpDef",
    "LARGEST",
    "SCALES",
    "check_types",
    "float8_143_def",
    "float8_152_def",
    "fp8_amax_scale",
    "fp8_mse_scale",
    "ieee_fp16_denorms",
    "ieee_fp32_no_denorms",
]


# The largest number of each format.
LARGEST = {popxl.float8_143: 240.0, popxl.float8_152: 57344.0}
# The powers of two that scales are chosen from.
SCALES = range(-31, 32)
_TYPES = (popxl.float16, popxl.float32)
# In this order the first of equally good scales is the one that changes the least.
_ORDER = sorted(SCALES, key=lambda scale: (abs(scale), scale))


class FpDef(NamedTuple):
    """A format of floating-point numbers.

    Attributes:
        num_exp_bits: Number of bits of the exponent.
        num_mantissa_bits: Number of bits of the mantissa.
        fix_exponent_bias: Bias of the exponent.
        include_denorm: Whether there are denormal numbers.
        has_nans: Whether there are infinities and NaNs in the way of IEEE 754.
        max_value: Largest number.
        max_exp: Largest exponent.
        min_exp: Least exponent of a normal number.
    """

    num_exp_bits: int
    num_mantissa_bits: int
    fix_exponent_bias: int
    include_denorm: bool
    has_nans: bool
    max_value: float
    max_exp: int
    min_exp: int


ieee_fp32_no_denorms = FpDef(8, 23, 127, False, True, 3.4028235e38, 127, -126)
ieee_fp16_denorms = FpDef(5, 10, 15, True, True, 65504, 15, -14)
float8_152_def = FpDef(5, 2, 16, True, False, 57344, 15, -17)
float8_143_def = FpDef(4, 3, 8, True, False, 240, 7, -10)


def fp8_amax_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Returns the greatest power of two with which a tensor fits into a format of 8-bit floats.

    Args:
        src: the tensor, of float16 or float32.
        dtype: the format.

    Returns:
        The exponent, an int32 scalar from -31 to 31: the largest for a tensor of zeros.

    Raises:
        RuntimeError: If types differ from these.
    """
    check_types(src, dtype)
    two = popxl.constant(2.0, popxl.float32)
    ratio = LARGEST[dtype] / ops.max(ops.abs(ops.cast(src, popxl.float32)))
    low, high = float(SCALES[0]), float(SCALES[-1])
    exponent = ops.clip(ops.floor(ops.log2(ratio)), low, high)
    # Logarithms are rounded: of a power of two they may be a little less, and near one a whole.
    is_low = ops.logical_not(ops.greater(ops.pow(two, exponent + 1.0), ratio))
    is_high = ops.greater(ops.pow(two, exponent), ratio)
    exponent = exponent + ops.cast(is_low, popxl.float32) - ops.cast(is_high, popxl.float32)
    return ops.cast(ops.clip(exponent, low, high), popxl.int32)


def check_types(t: popxl.Tensor, dtype: popxl.dtype) -> None:
    """Refuses tensors that cannot be cast to 8-bit floats, and formats that are none.

    Args:
        t: the tensor.
        dtype: the format.

    Raises:
        RuntimeError: If the tensor is not of float16 or float32, or there is no such format.
    """
    if t.dtype not in _TYPES or dtype not in LARGEST:
        raise RuntimeError(
            f"Expected a tensor of float16 or float32, and float8_143 or float8_152. Received: "
            f"{t!r} and {dtype}"
        )


def fp8_mse_scale(t: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Returns the power of two with which 8-bit floats have the least mean squared error.

    Numbers that are too large become the largest of the format. All powers are tried in a loop.

    Args:
        t: the tensor, of float16 or float32.
        dtype: the format.

    Returns:
        The exponent, an int32 scalar from -31 to 31.

    Raises:
        RuntimeError: If types differ from these.
    """
    check_types(t, dtype)
    largest = LARGEST[dtype]

    def body(
        count: popxl.Tensor, best: popxl.Tensor, least: popxl.Tensor, x: popxl.Tensor
    ) -> tuple[popxl.Tensor, ...]:
        scale = popxl.constant(np.array(_ORDER, np.int32))[count]
        factor = ops.pow(popxl.constant(2.0, popxl.float32), ops.cast(scale, popxl.float32))
        zero = popxl.constant(0, popxl.int32)
        scaled = ops.clip(x * factor, -largest, largest)
        codes = ops.pow2scale_cast_to_fp8(scaled, zero, dtype)
        back = ops.pow2scale_cast_from_fp8(codes, zero, popxl.float32) / factor
        error = ops.mean((back - x) * (back - x))
        is_better = ops.greater(least, error)
        return (
            count + 1,
            ops.where(is_better, scale, best),
            ops.where(is_better, error, least),
        )

    x = ops.cast(t, popxl.float32)
    starts = (
        popxl.constant(0, popxl.int32),
        popxl.constant(0, popxl.int32),
        popxl.constant(np.inf, popxl.float32),
    )
    graph = popxl.gir().create_graph(body, *starts, x)
    return ops.repeat(graph, len(_ORDER), *starts, x)[1]
