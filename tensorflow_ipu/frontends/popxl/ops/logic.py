"""Comparing, logic, and choosing by a condition."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import (
    Gradient,
    OpKind,
    register,
    tensor_method,
)
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.ops import casts
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def _logical_spec(specs: shapes.Specs) -> list[TensorSpec]:
    shape = shapes.broadcast_shape([spec.shape for spec in specs], "Logical")
    return [TensorSpec(shape, dtypes.bool)]


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


_AND = register(OpKind("And", _logical_spec, tf.logical_and, Gradient.CUT))


_NOT = register(OpKind("Not", _logical_spec, tf.logical_not, Gradient.CUT))


_OR = register(OpKind("Or", _logical_spec, tf.logical_or, Gradient.CUT))


_WHERE = register(OpKind("Where", _where_spec, lambda c, a, b: tf.where(c, a, b)))


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
    return building.add(_AND, *_as_bool(lhs, rhs))


@tensor_method()
def logical_not(t: Tensor) -> Tensor:
    """Returns whether elements are false, or 0.

    Args:
        t: the tensor.
    """
    return building.add(_NOT, *_as_bool(t))


@tensor_method()
def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether one of two elements is true, or not 0.

    Args:
        lhs: a tensor.
        rhs: a tensor.
    """
    return building.add(_OR, *_as_bool(lhs, rhs))


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
    building.check_in_graph(context.get_current_graph(), [condition, lhs, rhs])
    return building.add(_WHERE, *_as_bool(condition), lhs, rhs)


def _as_bool(*tensors: Tensor) -> list[Tensor]:
    """Returns tensors as booleans: true where they are not 0."""
    building.check_in_graph(context.get_current_graph(), tensors)
    building.check_same_place(tensors)
    return [t if t.dtype is dtypes.bool else casts.cast(t, dtypes.bool) for t in tensors]
