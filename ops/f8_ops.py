"""8-bit floating-point (F8) numbers: the public module `ipu.f8_ops`.

Values are bytes. One byte of metadata holds their format and scale: see `float8.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.ops import float8
from tensorflow_ipu.ops.float8 import Operand, QuarterTensor, as_bytes, convolution, product
from tensorflow_ipu.util import op_names

_SCALES = range(-32, 32)


class Format(enum.IntEnum):
    """The bit layout of an 8-bit floating-point number.

    Attributes:
        F143: 1 bit for the sign, 4 for the exponent, 3 for the mantissa.
        F152: 1 bit for the sign, 5 for the exponent, 2 for the mantissa.
    """

    F143 = 0
    F152 = 1


def create_metadata(fmt: Format, scale: int = 0) -> int:
    """Returns the metadata byte of 8-bit numbers: their format and scale.

    Args:
        fmt: the format.
        scale: the numbers are multiplied by 2 to this power, from -32 to 31.

    Raises:
        ValueError: there is no such format or scale.
    """
    try:
        fmt = Format(fmt)
    except ValueError as error:
        raise ValueError(
            f"fmt must be Format.F143 or Format.F152. Received: fmt={fmt!r}"
        ) from error
    if isinstance(scale, bool) or scale not in _SCALES:
        raise ValueError(
            f"scale must be an int from {_SCALES[0]} to {_SCALES[-1]}. Received: scale={scale!r}"
        )
    f143 = float8.F143_BIT if fmt is Format.F143 else 0
    return f143 | (int(scale) & float8.SCALE_MASK)


def convert_to_f8(values: Any, metadata: Any, name: str | None = None) -> QuarterTensor:
    """Converts numbers to 8 bits. No gradient passes.

    Args:
        values: numbers of any type, cast to float16 first.
        metadata: the result of `create_metadata`, or a uint8 scalar.
        name: name for the ops.

    Returns:
        The nearest numbers; of two equally near, the one with an even mantissa. Numbers beyond the
        range become the largest number of their sign; infinite ones become NaN.
    """
    with tf.name_scope(name or "convert_to_f8"):
        half = tf.cast(tf.convert_to_tensor(values), tf.float16)
        meta = _as_metadata(metadata)
        return QuarterTensor(float8.encode(half, meta), meta)


def convert_from_f8(
    packed_input: QuarterTensor, dtype: Any = tf.float16, name: str | None = None
) -> tf.Tensor:
    """Converts numbers of 8 bits to another type.

    Args:
        packed_input: the numbers.
        dtype: the type. float32 has all of them exactly.
        name: name for the ops.

    Returns:
        A tensor of the shape of the data.

    Raises:
        TypeError: the input is no QuarterTensor.
    """
    if not isinstance(packed_input, QuarterTensor):
        raise TypeError(f"Expected a QuarterTensor. Received: {packed_input!r}")
    with tf.name_scope(name or "convert_from_f8"):
        return tf.cast(float8.decode(packed_input.data, packed_input.metadata), dtype)


def f8_matmul(lhs: Operand, rhs: Operand, name: str = "f8_matmul") -> tf.Tensor:
    """Multiplies matrices of numbers of 8 bits, with sums in float32.

    Args:
        lhs: matrices, [..., n, k], as a QuarterTensor or a tensor, which is cast to float16.
        rhs: matrices, [..., k, m], likewise.
        name: name for the ops.

    Returns:
        A float16 tensor, [..., n, m].

    Raises:
        ValueError: a shape is not known when the program is built.
    """
    with tf.name_scope(name):
        return product(
            (lhs, rhs),
            ("lhs", "rhs"),
            "f8_matmul",
            tf.matmul,
            lambda left, _: left[-1],
            {"type": op_names.FLOAT8_MATMUL},
        )


def f8_conv_1d(
    inputs: Operand,
    filters: Operand,
    strides: int | Sequence[int] = 1,
    padding: Any = "VALID",
    data_format: str = "NWC",
    dilations: int | Sequence[int] | None = None,
    name: str = "f8_conv_1d",
) -> tf.Tensor:
    """Convolves sequences of numbers of 8 bits, with sums in float32.

    Args:
        inputs: [batch, width, channels], or as `data_format` says; a QuarterTensor or a tensor,
            which is cast to float16.
        filters: [width, channels, result channels], likewise.
        strides: a number, or one for each of the spatial or of all dimensions.
        padding: "SAME", "VALID", or a pair of numbers for each dimension.
        data_format: "NWC" or "NCW".
        dilations: as `strides`.
        name: name for the ops.

    Returns:
        A float16 tensor.

    Raises:
        ValueError: a shape is not known when the program is built, or an argument is not as above.
    """
    window = (strides, padding, data_format, dilations)
    return convolution(inputs, filters, window, "W", name)


def f8_conv_2d(
    inputs: Operand,
    filters: Operand,
    strides: int | Sequence[int] = 1,
    padding: Any = "VALID",
    data_format: str = "NHWC",
    dilations: int | Sequence[int] | None = None,
    name: str = "f8_conv_2d",
) -> tf.Tensor:
    """Convolves images of numbers of 8 bits, with sums in float32.

    Args:
        inputs: [batch, height, width, channels], or as `data_format` says; see `f8_conv_1d`.
        filters: [height, width, channels, result channels].
        strides: see `f8_conv_1d`.
        padding: see `f8_conv_1d`.
        data_format: "NHWC" or "NCHW".
        dilations: see `f8_conv_1d`.
        name: name for the ops.

    Returns:
        A float16 tensor.

    Raises:
        ValueError: see `f8_conv_1d`.
    """
    window = (strides, padding, data_format, dilations)
    return convolution(inputs, filters, window, "HW", name)


def f8_conv_3d(
    inputs: Operand,
    filters: Operand,
    strides: int | Sequence[int] = 1,
    padding: Any = "VALID",
    data_format: str = "NDHWC",
    dilations: int | Sequence[int] | None = None,
    name: str = "f8_conv_3d",
) -> tf.Tensor:
    """Convolves volumes of numbers of 8 bits, with sums in float32.

    Args:
        inputs: [batch, depth, height, width, channels], or as `data_format` says; see `f8_conv_1d`.
        filters: [depth, height, width, channels, result channels].
        strides: see `f8_conv_1d`.
        padding: see `f8_conv_1d`.
        data_format: "NDHWC" or "NCDHW".
        dilations: see `f8_conv_1d`.
        name: name for the ops.

    Returns:
        A float16 tensor.

    Raises:
        ValueError: see `f8_conv_1d`.
    """
    window = (strides, padding, data_format, dilations)
    return convolution(inputs, filters, window, "DHW", name)


def _as_metadata(metadata: Any) -> tf.Tensor:
    """Converts metadata, which may be a plain number, to a tensor."""
    if isinstance(metadata, (int, np.integer)):
        if not 0 <= metadata <= 255:
            raise ValueError(f"metadata must be a byte, 0 to 255. Received: {metadata}")
        return tf.constant(int(metadata), tf.uint8)
    return as_bytes(metadata, "metadata")
