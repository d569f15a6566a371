"""Encodes and decodes 8-bit floating-point numbers in TensorFlow operations.

Both formats have a sign, an exponent with a bias and a mantissa, one zero, and one NaN, whose code
is that of a negative zero. There is no infinity:

    F143: 4 bits of exponent, bias 8, 3 bits of mantissa: up to 240, least normal number 2^-7
    F152: 5 bits of exponent, bias 16, 2 bits of mantissa: up to 57344, least normal number 2^-15

A byte of metadata belongs to a tensor of codes: bit 7 is set for F143, and bits 0 to 5 are a
scale from -32 to 31 in two's complement. The value of a code is that above times 2 to the scale.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

F143_BIT = 128
SCALE_MASK = 63
NAN_CODE = 128
_LARGEST_CODE = 127
_SIGN_BIT = 128
# IEEE 754 binary32: where the exponent begins, and its bias.
_EXPONENT_SHIFT = 23
_EXPONENT_BIAS = 127


def encode(values: tf.Tensor, metadata: tf.Tensor) -> tf.Tensor:
    """Returns the codes that are nearest to numbers; of two equally near, the even one.

    Numbers beyond the range become the largest number of their sign. What is not a number, or
    infinite, becomes NaN.

    Args:
        values: float16 numbers; with any scale they are normal float32 numbers.
        metadata: a scalar.

    Returns:
        A uint8 tensor of the shape of `values`.
    """
    is_f143, scale = _fields(metadata)
    finite = tf.math.is_finite(values)
    wide = tf.cast(tf.where(finite, values, tf.zeros([], values.dtype)), tf.float32)
    magnitude = tf.abs(wide) * _power_of_two(-scale)
    mantissa_bits = tf.where(is_f143, 3, 2)
    least_exponent = tf.where(is_f143, -7, -15)
    bits = tf.bitcast(magnitude, tf.int32)
    exponent = tf.bitwise.right_shift(bits, _EXPONENT_SHIFT) - _EXPONENT_BIAS
    exponent = tf.maximum(exponent, least_exponent)
    # In units of the last place a number is an integer. Those of the least exponent, with the
    # subnormal numbers, are their own codes; each further exponent has as many again.
    units = tf.cast(tf.round(magnitude * _power_of_two(mantissa_bits - exponent)), tf.int32)
    offset = tf.bitwise.left_shift(exponent - least_exponent, mantissa_bits)
    code = tf.minimum(units + offset, _LARGEST_CODE)
    code = tf.where((wide < 0) & (code > 0), code + _SIGN_BIT, code)
    return tf.cast(tf.where(finite, code, NAN_CODE), tf.uint8)


def decode(codes: tf.Tensor, metadata: tf.Tensor) -> tf.Tensor:
    """Returns the float32 numbers that codes stand for, all of them exactly.

    Args:
        codes: a uint8 tensor.
        metadata: a scalar.
    """
    is_f143, scale = _fields(metadata)
    table = tf.where(is_f143, tf.constant(_table(3, 8)), tf.constant(_table(2, 16)))
    return tf.gather(table, tf.cast(codes, tf.int32)) * _power_of_two(scale)


def _fields(metadata: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns whether the format is F143, and the scale."""
    number = tf.cast(metadata, tf.int32)
    scale = tf.bitwise.bitwise_and(number, SCALE_MASK)
    signed = tf.where(scale > SCALE_MASK // 2, scale - SCALE_MASK - 1, scale)
    is_f143 = tf.not_equal(tf.bitwise.bitwise_and(number, F143_BIT), 0)
    return is_f143, signed


def _power_of_two(exponent: tf.Tensor) -> tf.Tensor:
    """Returns 2 to an integer that a float32 has room for, exactly."""
    bits = tf.bitwise.left_shift(exponent + _EXPONENT_BIAS, _EXPONENT_SHIFT)
    return tf.bitcast(bits, tf.float32)


def _table(mantissa_bits: int, bias: int) -> np.ndarray:
    """Returns the number of each code, from the definition of the format."""
    magnitudes = np.arange(128)
    exponent, mantissa = magnitudes >> mantissa_bits, magnitudes & ((1 << mantissa_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits)
    normal = (1 + fraction) * 2.0 ** (exponent - bias)
    positive = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)
    table = np.concatenate([positive, -positive]).astype(np.float32)
    table[NAN_CODE] = np.nan
    return table
