"""Arithmetic on tensors that are broadcast together, comparisons and logic."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.popxl import building, tensor
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import (
    OpKind,
    in_place,
    register,
    tensor_method,
)
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike


def _divided(lhs: Any, rhs: Any) -> Any:
    """The quotient; of integers, towards zero as the device divides."""
    return tf.truncatediv(lhs, rhs) if lhs.dtype.is_integer else lhs / rhs


def sum_to(gradient: Any, like: Any) -> Any:
    """Returns the gradient of what was broadcast: summed over the axes that were.

    Args:
        gradient: the gradient of the result.
        like: what was broadcast.
    """
    extra = len(gradient.shape) - len(like.shape)
    summed = tf.reduce_sum(gradient, list(range(extra))) if extra else gradient
    ones = [i for i, dim in enumerate(like.shape) if dim == 1 and summed.shape[i] != 1]
    return tf.reduce_sum(summed, ones, keepdims=True) if ones else summed


def _fmod_gradient(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
    """The gradient of a remainder: only the dividend has one."""
    return [sum_to(gradients[0], inputs[0]), None]


def _maximum_of(*ts: Any) -> Any:
    result = ts[0]
    for t in ts[1:]:
        result = tf.maximum(result, t)
    return result if len(ts) > 1 else tf.identity(result)


def _maximum_gradient(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
    """The whole gradient for every operand that equals the maximum."""
    zeros = tf.zeros_like(gradients[0])
    return [sum_to(tf.where(tf.equal(t, outputs[0]), gradients[0], zeros), t) for t in inputs]


_ADD = register(OpKind("Add", shapes.elementwise("Add"), tf.add))
_ADD_ = in_place(_ADD, shapes.into_first("Add"), "AddLhsInplace")
_DIV = register(OpKind("Div", shapes.elementwise("Div"), _divided, keeps_all=True))
_FMOD = register(
    OpKind("Fmod", shapes.elementwise("Fmod"), kernels.remainder, _fmod_gradient, keeps_all=True)
)
_MAXIMUM = register(OpKind("Max", shapes.elementwise("Max"), _maximum_of, _maximum_gradient))
_MUL = register(OpKind("Mul", shapes.elementwise("Mul"), tf.multiply, keeps_all=True))
_POW = register(OpKind("Pow", shapes.elementwise("Pow"), kernels.power, keeps_all=True))
_SUB = register(OpKind("Sub", shapes.elementwise("Sub"), tf.subtract))


@tensor_method()
def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the sum of two tensors, broadcast together.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_ADD, lhs, rhs)


@tensor_method()
def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Adds a tensor to another in place.

    Args:
        lhs: the tensor that is modified, of the shape of the result.
        rhs: a tensor of the same type.

    Returns:
        A view of `lhs`.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_ADD_, lhs, rhs)


@tensor_method()
def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the quotient of two tensors, broadcast together; of integers, towards zero.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_DIV, lhs, rhs)


@tensor_method()
def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the remainder of a division, with the sign of the dividend.

    Args:
        lhs: the dividend.
        rhs: the divisor, of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_FMOD, lhs, rhs)


def maximum(*ts: Tensor) -> Tensor:
    """Returns the greatest of the elements of tensors that are broadcast together.

    Args:
        *ts: one or more tensors of one type.

    Raises:
        ValueError: If there is none.
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    if not ts:
        raise ValueError("ops.maximum needs at least one tensor. Received none.")
    return building.add(_MAXIMUM, *ts)


@tensor_method()
def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the product of the elements of two tensors, broadcast together.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_MUL, lhs, rhs)


@tensor_method()
def pow(t: Tensor, e: TensorLike) -> Tensor:  # noqa: A001
    """Returns the elements of a tensor to the powers of another.

    Args:
        t: the tensor.
        e: the powers, of the same type. Of a number, that is the type that NumPy gives it.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_POW, t, tensor.as_tensor(e))


@tensor_method()
def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the difference of two tensors, broadcast together.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_SUB, lhs, rhs)
