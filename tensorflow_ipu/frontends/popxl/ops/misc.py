"""Sums with factors, clipping and counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.popxl import building, tensor
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, in_place, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Tensor

if TYPE_CHECKING:
    pass


def _clip(t: Any, low: float, high: float) -> Any:
    limits = [_limit(limit, t.dtype) for limit in (low, high)]
    return tf.minimum(tf.maximum(t, limits[0]), limits[1])


def _limit(value: float, dtype: tf.DType) -> Any:
    """Returns a bound in a type; for integers it is one that they can have."""
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
_INCREMENT_MOD = register(OpKind("IncrementMod", shapes.same, _increment_mod, Gradient.CUT))
_INCREMENT_MOD_ = in_place(_INCREMENT_MOD)
_SCALED_ADD = register(OpKind("ScaledAdd", _scaled_spec, _scaled_add, Gradient.CUT))
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
        increment: what is added.
        modulus: what is divided by.
    """
    return building.add(_INCREMENT_MOD, t, increment=increment, modulus=modulus)


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Adds a number to a tensor, and takes the remainder by another, in place.

    Args:
        t: the tensor.
        increment: what is added.
        modulus: what is divided by.

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
