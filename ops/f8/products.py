"""Calls of products of 8-bit numbers, which plans price as such and programs compute in float32."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler.ir import composite_calls
from tensorflow_ipu.ops.f8.quarter_tensor import Operand, QuarterTensor, wide

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
    (result,) = composite_calls.call(name, of_parts, parts, described)
    return result
