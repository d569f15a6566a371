"""Functions of each element of one tensor, and activations."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, in_place, ir_method, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ops import arithmetic, movement
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant


def _is(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    """The rule of a question about each element."""
    return [specs[0].with_dtype(dtypes.bool)]


def _softmax_spec(specs: shapes.Specs, axis: int) -> list[TensorSpec]:
    shapes.positive_axis(axis, specs[0].rank, "Softmax")
    return [specs[0]]


def _sign(t: Any) -> Any:
    """Returns the sign of each element, and 0 for NaN."""
    if t.dtype.is_integer:
        return tf.cast(t > 0, t.dtype) - tf.cast(t < 0, t.dtype)
    return tf.where(tf.math.is_nan(t), tf.zeros_like(t), tf.sign(t))


def absolute(t: Any) -> Any:
    """Returns the absolute values of a TensorFlow tensor: of unsigned integers, these.

    Args:
        t: the tensor.
    """
    return tf.identity(t) if t.dtype.is_unsigned else tf.abs(t)


def _negative(t: Any) -> Any:
    return tf.zeros_like(t) - t if t.dtype.is_unsigned else tf.negative(t)


# Of the tanh form of gelu: the factor before the sum, and that of the cube in it.
_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def _gelu(t: Any) -> Any:
    """The tanh form: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).

    It and its gradient are written out, without powers and nested products: TensorFlow's optimizers
    change such outside of loops only, so results inside and outside would have other bits.
    """
    return tf.constant(0.5, t.dtype) * t * (tf.constant(1, t.dtype) + _gelu_tanh(t, t * t * t))


def _gelu_tanh(t: Any, cube: Any) -> Any:
    inner = t + tf.constant(_GELU_CUBIC, t.dtype) * cube
    return tf.tanh(tf.constant(_GELU_SCALE, t.dtype) * inner)


def _gelu_gradient(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
    """With u = tanh(...): (1 + u) / 2 + (1 - u^2) * sqrt(1 / 2 pi) * (x + 3 * 0.044715 x^3)."""
    (t,), (gradient,) = inputs, gradients
    half, one = tf.constant(0.5, t.dtype), tf.constant(1, t.dtype)
    linear = tf.constant(_GELU_SCALE / 2, t.dtype)
    cubic = tf.constant(_GELU_SCALE / 2 * 3 * _GELU_CUBIC, t.dtype)
    cube = t * t * t
    tanh = _gelu_tanh(t, cube)
    slope = (one - tanh * tanh) * (linear * t + cubic * cube)
    return [gradient * (half * (one + tanh) + slope)]


def _geluerf(t: Any) -> Any:
    scaled = t * tf.constant(1 / math.sqrt(2), t.dtype)
    return tf.constant(0.5, t.dtype) * t * (tf.constant(1, t.dtype) + tf.math.erf(scaled))


_ABS = register(OpKind("Abs", shapes.same, absolute))
_CEIL = register(OpKind("Ceil", shapes.same, tf.math.ceil, GradientRule.CUT))
_COS = register(OpKind("Cos", shapes.same, tf.cos))
_EXP = register(OpKind("Exp", shapes.same, tf.exp))
_EXP_ = in_place(_EXP)
_FLOOR = register(OpKind("Floor", shapes.same, tf.floor, GradientRule.CUT))
_GELU = register(OpKind("Gelu", shapes.same, _gelu, _gelu_gradient))
_GELU_ = in_place(_GELU)
_GELUERF = register(OpKind("GeluErf", shapes.same, _geluerf))
_GELUERF_ = in_place(_GELUERF)
_ISINF = register(OpKind("IsInf", _is, tf.math.is_inf, GradientRule.CUT))
_ISNAN = register(OpKind("IsNaN", _is, tf.math.is_nan, GradientRule.CUT))
_LOG = register(OpKind("Log", shapes.same, tf.math.log))
_NEGATE = register(OpKind("Neg", shapes.same, _negative))
_RELU = register(OpKind("Relu", shapes.same, tf.nn.relu))
_RELU_ = in_place(_RELU)
_SIGN = register(OpKind("Sign", shapes.same, _sign, GradientRule.CUT))
_SIN = register(OpKind("Sin", shapes.same, tf.sin))
_SOFTMAX = register(OpKind("Softmax", _softmax_spec, lambda t, axis: tf.nn.softmax(t, axis)))
_SQRT = register(OpKind("Sqrt", shapes.same, tf.sqrt))
_SWISH = register(OpKind("Swish", shapes.same, lambda t: t * tf.sigmoid(t)))
_SWISH_ = in_place(_SWISH)
_TANH = register(OpKind("Tanh", shapes.same, tf.tanh))


def abs(t: Tensor) -> Tensor:  # noqa: A001
    """Returns the absolute value of each element.

    Args:
        t: the tensor.
    """
    return building.add(_ABS, t)


def ceil(t: Tensor) -> Tensor:
    """Returns the smallest whole number not below each element.

    Args:
        t: the tensor.
    """
    return building.add(_CEIL, t)


def cos(t: Tensor) -> Tensor:
    """Returns the cosine of each element.

    Args:
        t: the tensor.
    """
    return building.add(_COS, t)


def exp(t: Tensor) -> Tensor:
    """Returns e to the power of each element.

    Args:
        t: the tensor.
    """
    return building.add(_EXP, t)


def exp_(t: Tensor) -> Tensor:
    """Replaces each element of a tensor by e to its power; returns a view of the tensor.

    Args:
        t: the tensor.
    """
    return building.add(_EXP_, t)


def floor(t: Tensor) -> Tensor:
    """Returns the largest whole number not above each element.

    Args:
        t: the tensor.
    """
    return building.add(_FLOOR, t)


def gelu(t: Tensor) -> Tensor:
    """Returns the Gaussian error linear unit of each element, in the form with tanh.

    Args:
        t: the tensor.
    """
    return building.add(_GELU, t)


def gelu_(t: Tensor) -> Tensor:
    """Replaces each element of a tensor by its `gelu`; returns a view of the tensor.

    Args:
        t: the tensor.
    """
    return building.add(_GELU_, t)


def geluerf(t: Tensor) -> Tensor:
    """Returns the Gaussian error linear unit of each element, in the form with erf.

    Args:
        t: the tensor.
    """
    return building.add(_GELUERF, t)


def geluerf_(t: Tensor) -> Tensor:
    """Replaces each element of a tensor by its `geluerf`; returns a view of the tensor.

    Args:
        t: the tensor.
    """
    return building.add(_GELUERF_, t)


def isfinite(t: Tensor) -> Tensor:
    """Returns whether each element is a number and finite.

    Args:
        t: the tensor.
    """
    infinite_or_none = arithmetic.logical_or(isnan(t), isinf(t))
    return movement.identity(arithmetic.logical_not(infinite_or_none), "isfinite_out")


def isinf(t: Tensor) -> Tensor:
    """Returns whether each element is infinite.

    Args:
        t: the tensor.
    """
    return building.add(_ISINF, t)


def isnan(t: Tensor) -> Tensor:
    """Returns whether each element is not a number.

    Args:
        t: the tensor.
    """
    return building.add(_ISNAN, t)


def log(t: Tensor) -> Tensor:
    """Returns the natural logarithm of each element.

    Args:
        t: the tensor.
    """
    return building.add(_LOG, t)


def log2(t: Tensor) -> Tensor:
    """Returns the logarithm to base 2 of each element.

    Args:
        t: the tensor.
    """
    building.check_tensor(t)
    return arithmetic.div(log(t), log(constant(2, t.dtype)))


@ir_method()
def negate(t: Tensor) -> Tensor:
    """Returns each element with the other sign.

    Args:
        t: the tensor.
    """
    return building.add(_NEGATE, t)


def relu(t: Tensor) -> Tensor:
    """Returns each element, and 0 for negative ones.

    Args:
        t: the tensor.
    """
    return building.add(_RELU, t)


def relu_(t: Tensor) -> Tensor:
    """Replaces negative elements of a tensor by 0; returns a view of the tensor.

    Args:
        t: the tensor.
    """
    return building.add(_RELU_, t)


def sign(t: Tensor) -> Tensor:
    """Returns -1, 0 or 1 for each element, and 0 for NaN.

    Args:
        t: the tensor.
    """
    return building.add(_SIGN, t)


def sin(t: Tensor) -> Tensor:
    """Returns the sine of each element.

    Args:
        t: the tensor.
    """
    return building.add(_SIN, t)


def softmax(t: Tensor, axis: int) -> Tensor:
    """Returns e to the power of each element, divided by their sum along an axis.

    Args:
        t: the tensor.
        axis: the axis; negative ones count from the last.

    Raises:
        popart.popart_exception: If there is no such axis.
    """
    return building.add(_SOFTMAX, t, axis=axis)


def sqrt(t: Tensor) -> Tensor:
    """Returns the square root of each element.

    Args:
        t: the tensor.
    """
    return building.add(_SQRT, t)


def swish(t: Tensor) -> Tensor:
    """Returns each element times its sigmoid.

    Args:
        t: the tensor.
    """
    return building.add(_SWISH, t)


def swish_(t: Tensor) -> Tensor:
    """Replaces each element of a tensor by its `swish`; returns a view of the tensor.

    Args:
        t: the tensor.
    """
    return building.add(_SWISH_, t)


def tanh(t: Tensor) -> Tensor:
    """Returns the hyperbolic tangent of each element.

    Args:
        t: the tensor.
    """
    return building.add(_TANH, t)
