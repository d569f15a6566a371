"""Arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes, tensor
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, in_place, ir_method, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ops import movement
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike


def _divided(lhs: Any, rhs: Any) -> Any:
    """The quotient; of integers, towards zero as the device divides."""
    return tf.truncatediv(lhs, rhs) if lhs.dtype.is_integer else lhs / rhs


def sum_to(gradient: Any, like: Any) -> Any:
    """Sums a gradient over the axes along which its operand was broadcast.

    Args:
        gradient: the gradient of the result.
        like: the operand that was broadcast.
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


@ir_method()
def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the sum of two tensors, broadcast together.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_ADD, lhs, rhs)


@ir_method()
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


@ir_method()
def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the quotient of two tensors, broadcast together; of integers, towards zero.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_DIV, lhs, rhs)


@ir_method()
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


@ir_method()
def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the product of the elements of two tensors, broadcast together.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_MUL, lhs, rhs)


@ir_method()
def pow(t: Tensor, e: TensorLike) -> Tensor:  # noqa: A001
    """Returns the elements of a tensor to the powers of another.

    Args:
        t: the tensor.
        e: the powers, of the same type. Of a number, that is the type that NumPy gives it.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_POW, t, tensor.as_tensor(e))


@ir_method()
def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns the difference of two tensors, broadcast together.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_SUB, lhs, rhs)


def _logical_spec(specs: shapes.Specs) -> list[TensorSpec]:
    shape = shapes.broadcast_shape([spec.shape for spec in specs], "Logical")
    return [TensorSpec(shape, dtypes.bool)]


def _where_spec(specs: shapes.Specs) -> list[TensorSpec]:
    shapes.check_same_types(specs[1:], "Where")
    shape = shapes.broadcast_shape([spec.shape for spec in specs], "Where")
    return [TensorSpec(shape, specs[1].dtype, shapes.meta_shape(specs[1:]))]


_EQUAL = register(
    OpKind("Equal", shapes.elementwise("Equal", dtypes.bool), tf.equal, GradientRule.REFUSED)
)


_GREATER = register(
    OpKind("Greater", shapes.elementwise("Greater", dtypes.bool), tf.greater, GradientRule.REFUSED)
)


_AND = register(OpKind("And", _logical_spec, tf.logical_and, GradientRule.CUT))


_NOT = register(OpKind("Not", _logical_spec, tf.logical_not, GradientRule.CUT))


_OR = register(OpKind("Or", _logical_spec, tf.logical_or, GradientRule.CUT))


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
    """Returns whether each element of one tensor is greater than the other tensor's element.

    Args:
        input: the tensor that should be greater.
        other: a tensor of the same type.

    Raises:
        popart.popart_exception: If types differ, or shapes do not fit.
    """
    return building.add(_GREATER, input, other)


@ir_method()
def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether both of two elements are true, or not 0.

    Args:
        lhs: a tensor.
        rhs: a tensor.
    """
    return building.add(_AND, *_as_bool(lhs, rhs))


@ir_method()
def logical_not(t: Tensor) -> Tensor:
    """Returns whether elements are false, or 0.

    Args:
        t: the tensor.
    """
    return building.add(_NOT, *_as_bool(t))


@ir_method()
def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether one of two elements is true, or not 0.

    Args:
        lhs: a tensor.
        rhs: a tensor.
    """
    return building.add(_OR, *_as_bool(lhs, rhs))


@ir_method()
def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Selects elements of one tensor where a condition holds, else of another tensor.

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
    return [t if t.dtype is dtypes.bool else movement.cast(t, dtypes.bool) for t in tensors]


if TYPE_CHECKING:
    pass


def _clip(t: Any, low: float, high: float) -> Any:
    limits = [_limit(limit, t.dtype) for limit in (low, high)]
    return tf.minimum(tf.maximum(t, limits[0]), limits[1])


def _limit(value: float, dtype: tf.DType) -> Any:
    """Returns a bound as a constant of a type, clipped to the range of an integer type."""
    if dtype.is_integer:
        value = int(max(min(value, dtype.max), dtype.min))
    return tf.constant(value, dtype)


def _clip_gradient(inputs: Any, outputs: Any, gradients: Any, low: float, high: float) -> list[Any]:
    """The gradient where an element is strictly between the bounds."""
    limits = [tf.constant(limit, outputs[0].dtype) for limit in (low, high)]
    inside = tf.logical_and(outputs[0] > limits[0], outputs[0] < limits[1])
    return [tf.where(inside, gradients[0], tf.zeros_like(gradients[0]))]


def _increment_mod(t: Any, increment: float, modulus: float) -> Any:
    return kernels.remainder(t + tf.cast(increment, t.dtype), tf.cast(modulus, t.dtype))


def _scaled_spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    x, y = specs[:2]
    if x.shape != y.shape:
        raise popart_exception(
            f"ScaledAdd does not broadcast: shapes must be equal. Received: {x.shape} and {y.shape}"
        )
    return [x]


def _scaled_add(x: Any, y: Any, *scales: Any, a: float | None, b: float | None) -> Any:
    """`a * x + b * y`, with factors that are numbers, or tensors in their place."""
    given = iter(scales)
    first = next(given) if a is None else a
    second = next(given) if b is None else b
    return _times(first, x) + _times(second, tf.cast(y, x.dtype))


def _times(scale: Any, t: Any) -> Any:
    """The product of a tensor and a factor, a number or a tensor, in the tensor's type."""
    if isinstance(scale, (int, float)):
        return t if scale == 1 else tf.cast(scale, t.dtype) * t
    return tf.cast(scale, t.dtype) * t


_CLIP = register(OpKind("Clip", shapes.same, _clip, _clip_gradient))


_INCREMENT_MOD = register(OpKind("IncrementMod", shapes.same, _increment_mod, GradientRule.CUT))


_INCREMENT_MOD_ = in_place(_INCREMENT_MOD)


_SCALED_ADD = register(OpKind("ScaledAdd", _scaled_spec, _scaled_add, GradientRule.CUT))


_SCALED_ADD_ = in_place(_SCALED_ADD, listed="ScaledAddLhsInplace")


def clip(t: Tensor, min: float = float("-inf"), max: float = float("inf")) -> Tensor:  # noqa: A002
    """Returns a tensor with elements that are out of bounds replaced by the bounds.

    Args:
        t: the tensor.
        min: the lower bound.
        max: the upper bound.
    """
    return building.add(_CLIP, t, low=float(min), high=float(max))


clamp = clip


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Returns the remainder of a tensor plus a number by another.

    Args:
        t: the tensor.
        increment: the summand.
        modulus: the divisor.
    """
    return building.add(_INCREMENT_MOD, t, increment=increment, modulus=modulus)


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Adds a number to a tensor, and takes the remainder by another, in place.

    Args:
        t: the tensor.
        increment: the summand.
        modulus: the divisor.

    Returns:
        A view of the tensor.
    """
    return building.add(_INCREMENT_MOD_, t, increment=increment, modulus=modulus)


def scaled_add(
    X: Tensor,  # noqa: N803
    Y: Tensor,  # noqa: N803
    a: float | Tensor = 1.0,
    b: float | Tensor = 1.0,
) -> Tensor:
    """Returns the sum of two tensors times factors, in the type of the first.

    Args:
        X: a tensor.
        Y: a tensor of its shape.
        a: the factor of `X`, a number or a scalar.
        b: the factor of `Y`, a number or a scalar.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return _scaled(_SCALED_ADD, X, Y, a, b)


def scaled_add_(
    X: Tensor,  # noqa: N803
    Y: Tensor,  # noqa: N803
    a: float | Tensor = 1.0,
    b: float | Tensor = 1.0,
) -> Tensor:
    """Makes a tensor the sum of itself and another, times factors.

    Args:
        X: the tensor that is modified.
        Y: a tensor of its shape.
        a: the factor of `X`, a number or a scalar.
        b: the factor of `Y`, a number or a scalar.

    Returns:
        A view of `X`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return _scaled(_SCALED_ADD_, X, Y, a, b)


def _scaled(kind: OpKind, x: Tensor, y: Tensor, a: float | Tensor, b: float | Tensor) -> Tensor:
    """Adds a sum with factors; those that are tensors are inputs."""
    scales = [tensor.as_tensor(scale) for scale in (a, b) if isinstance(scale, Tensor)]
    first, second = (None if isinstance(scale, Tensor) else float(scale) for scale in (a, b))
    return building.add(kind, x, y, *scales, a=first, b=second)
