"""Formats of floating-point numbers; the module `popxl_addons.ops.fp8_utils`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "FpDef",
    "float8_143_def",
    "float8_152_def",
    "ieee_fp16_denorms",
    "ieee_fp32_no_denorms",
]


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
