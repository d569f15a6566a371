"""Convolutions of 8-bit floating-point numbers, for any number of spatial dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu import op_names
from tensorflow_ipu.ops.f8.products import product
from tensorflow_ipu.ops.f8.quarter_tensor import Operand


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
