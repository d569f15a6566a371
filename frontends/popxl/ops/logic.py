"""Comparing, logic, and choosing by a condition."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import (
    Gradient,
    OpKind,
    register,
    tensor_method,
)
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def _logical_spec(specs: shapes.Specs) -> list[TensorSpec]:
    shape = shapes.broadcast_shape([spec.shape for spec in specs], "Logical")
    return [TensorSpec(shape, dtypes.bool)]


def _bool(t: Any) -> Any:
    return tf.cast(t, tf.bool)


def _where_spec(specs: shapes.Specs) -> list[TensorSpec]:
    shapes.check_same_types(specs[1:], "Where")
    shape = shapes.broadcast_shape([spec.shape for spec in specs], "Where")
    return [TensorSpec(shape, specs[1].dtype, shapes.meta_shape(specs[1:]))]


_EQUAL = register(
    OpKind("Equal", shapes.elementwise("Equal", dtypes.bool), tf.equal, Gradient.REFUSED)
)


_GREATER = register(
    OpKind("Greater", shapes.elementwise("Greater", dtypes.bool), tf.greater, Gradient.REFUSED)
)


_AND = register(
    OpKind("And", _logical_spec, lambda a, b: tf.logical_and(_bool(a), _bool(b)), Gradient.CUT)
)


_NOT = register(OpKind("Not", _logical_spec, lambda t: tf.logical_not(_bool(t)), Gradient.CUT))


_OR = register(
    OpKind("Or", _logical_spec, lambda a, b: tf.logical_or(_bool(a), _bool(b)), Gradient.CUT)
)


_WHERE = register(OpKind("Where", _where_spec, lambda c, a, b: tf.where(_bool(c), a, b)))


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether elements of two tensors, broadcast together, are equal.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_EQUAL, lhs, rhs)


def greater(input: Tensor, other: Tensor) -> Tensor:  # noqa: A002
    """Returns whether elements of one tensor are greater than those of another.

    Args:
        input: the one.
        other: the other, of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_GREATER, input, other)


@tensor_method()
def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether both of two elements are true, or not 0.

    Args:
        lhs: a tensor.
        rhs: a tensor.
    """
    return building.add(_AND, lhs, rhs)


@tensor_method()
def logical_not(t: Tensor) -> Tensor:
    """Returns whether elements are false, or 0.

    Args:
        t: the tensor.
    """
    return building.add(_NOT, t)


@tensor_method()
def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether one of two elements is true, or not 0.

    Args:
        lhs: a tensor.
        rhs: a tensor.
    """
    return building.add(_OR, lhs, rhs)


@tensor_method()
def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns elements of one tensor where a condition holds, else those of another.

    Args:
        condition: a tensor of booleans, or of numbers that are not 0 where it holds.
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_WHERE, condition, lhs, rhs)
