"""8-bit floating-point numbers (F8): codes, tensors, products and convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.util import op_names

# --- Codes ---

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


# --- Tensors ---


class QuarterTensor:
    """A tensor of numbers of 8 bits. It unpacks into its two parts.

    Attributes:
        data: the numbers, a uint8 tensor.
        metadata: their format and scale, a uint8 scalar: see `create_metadata`.
    """

    def __init__(self, data: Any, metadata: Any) -> None:
        """Makes one of its parts.

        Args:
            data: uint8 tensor or array.
            metadata: uint8 tensor or array.

        Raises:
            TypeError: one of them is of another type.
        """
        self.data = as_bytes(data, "data")
        self.metadata = as_bytes(metadata, "metadata")

    def __iter__(self) -> Iterator[tf.Tensor]:
        """Yields data and metadata."""
        return iter((self.data, self.metadata))

    def numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns data and metadata as arrays; outside of graphs only."""
        return self.data.numpy(), self.metadata.numpy()

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the data."""
        return self.data.shape

    def __repr__(self) -> str:
        """Shows both parts."""
        return f"QuarterTensor(data={self.data!r}, metadata={self.metadata!r})"


Operand = Union[QuarterTensor, tf.Tensor]


def wide(operand: Operand, argument: str, operation: str) -> tf.Tensor:
    """Returns an operand's numbers in float32, which products of 8 bits are exact in."""
    if isinstance(operand, QuarterTensor):
        values = decode(operand.data, operand.metadata)
    else:
        values = tf.cast(tf.cast(tf.convert_to_tensor(operand), tf.float16), tf.float32)
    if not values.shape.is_fully_defined():
        raise ValueError(
            f"{operation} needs operands of known shape. Received: {argument} of shape "
            f"{values.shape}. Set it with tf.ensure_shape."
        )
    return values


def as_bytes(value: Any, argument: str) -> tf.Tensor:
    """Converts a part of a QuarterTensor to a uint8 tensor; other types are a TypeError."""
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype != tf.uint8:
        raise TypeError(
            f"The {argument} of a QuarterTensor must be of the type uint8. Received: "
            f"{tensor.dtype.name}. Use convert_to_f8 to make one of numbers."
        )
    return tensor


# --- Products ---

_NUMBERS = itertools.count()


def product(
    operands: tuple[Operand, Operand],
    arguments: tuple[str, str],
    operation: str,
    compute: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    terms: Callable[[tf.TensorShape, tf.TensorShape], int],
    said: Mapping[str, Any],
) -> tf.Tensor:
    """Computes a product of 8-bit numbers; a plan takes it for one if both operands are.

    Args:
        operands: both.
        arguments: their names, for errors.
        operation: name of the operation.
        compute: makes the product of both in float32.
        terms: gives the products that are added up for an element of the result, by both shapes.
        said: type of the op that a plan takes the product for, and its attributes.

    Returns:
        A float16 tensor.

    Raises:
        ValueError: a shape is not known when the program is built.
    """

    def computed(left: Operand, right: Operand) -> tf.Tensor:
        sides = [wide(side, name, operation) for side, name in zip((left, right), arguments)]
        return tf.cast(compute(*sides), tf.float16)

    def of_parts(*parts: tf.Tensor) -> tf.Tensor:
        return computed(QuarterTensor(parts[0], parts[2]), QuarterTensor(parts[1], parts[3]))

    left, right = operands
    if tf.executing_eagerly() or not isinstance(left, QuarterTensor):
        return computed(left, right)
    if not isinstance(right, QuarterTensor):
        return computed(left, right)

    def described(results: Sequence[tf.Tensor]) -> dict[str, Any]:
        each = terms(left.shape, right.shape)
        return {**said, "flops": 2 * each * results[0].shape.num_elements()}

    parts = [left.data, right.data, left.metadata, right.metadata]
    name = f"{operation}_{next(_NUMBERS)}"
    (result,) = trace.call_composite(name, of_parts, parts, described)
    return result


# --- Convolutions ---


def convolution(
    inputs: Operand,
    filters: Operand,
    window: tuple[Any, Any, str, Any],
    spatial: str,
    name: str,
) -> tf.Tensor:
    """Convolves tensors of 8-bit numbers, with sums in float32.

    Args:
        inputs: the images.
        filters: the filters.
        window: strides, padding, data format and dilations, as `f8_ops.f8_conv_1d` takes them.
        spatial: letters of the spatial dimensions, as in `NHWC`.
        name: name for the ops.

    Returns:
        A float16 tensor.

    Raises:
        ValueError: see `f8_ops.f8_conv_1d`.
    """
    strides, padding, data_format, dilations = window
    last, first = f"N{spatial}C", f"NC{spatial}"
    if data_format not in (last, first):
        raise ValueError(f"data_format must be {last} or {first}. Received: {data_format!r}")
    steps, dilated = (
        _spatial(value, argument, data_format, spatial)
        for value, argument in ((strides, "strides"), (dilations, "dilations"))
    )

    def computed(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        if data_format == first:  # TensorFlow's kernels have the channels last
            x = tf.transpose(x, [0, *range(2, x.shape.rank), 1])
        padded = padding
        if not isinstance(padding, str):
            pairs = _paddings(padding, data_format, spatial)
            x, padded = tf.pad(x, [[0, 0], *pairs, [0, 0]]), "VALID"
        result = tf.nn.convolution(
            x, kernel, strides=steps, padding=padded, data_format=last, dilations=dilated
        )
        if data_format == first:
            result = tf.transpose(result, [0, result.shape.rank - 1, *range(1, len(spatial) + 1)])
        return result

    given = {"strides": steps, "dilations": dilated, "filters_last": True}
    said = {
        "type": op_names.FLOAT8_CONVOLUTION,
        "attributes": {**given, "channels_last": data_format == last},
    }
    with tf.name_scope(name):
        return product(
            (inputs, filters),
            ("inputs", "filters"),
            name,
            computed,
            lambda _, kernel: kernel[:-1].num_elements(),
            said,
        )


def _spatial(value: Any, argument: str, data_format: str, spatial: str) -> list[int]:
    """Returns a number for each spatial dimension."""
    numbers = [1 if value is None else value] if np.ndim(value) == 0 else list(value)
    if len(numbers) == 1:
        return numbers * len(spatial)
    if len(numbers) == len(spatial):
        return numbers
    if len(numbers) == len(data_format):
        by_dimension = dict(zip(data_format, numbers))
        if by_dimension["N"] == by_dimension["C"] == 1:
            return [by_dimension[dimension] for dimension in spatial]
    raise ValueError(
        f"{argument} must be an int, {len(spatial)} of them, or {len(data_format)} with 1 for the "
        f"batch and the channels ({data_format}). Received: {argument}={value!r}"
    )


def _paddings(padding: Any, data_format: str, spatial: str) -> list[list[int]]:
    """Returns the pair of paddings of each spatial dimension."""
    pairs = [list(pair) for pair in padding]
    if len(pairs) == len(data_format):
        pairs = [pairs[data_format.index(dimension)] for dimension in spatial]
    if len(pairs) != len(spatial) or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            'padding must be "SAME", "VALID", or a pair of numbers for each dimension '
            f"({data_format}). Received: padding={padding!r}"
        )
    return pairs
