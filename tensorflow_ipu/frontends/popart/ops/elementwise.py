"""Ops on elements: arithmetic, functions, comparisons, logic, bits and quantization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception, poplar_exception
from tensorflow_ipu.frontends.popart.ops import operands, registry, windows
from tensorflow_ipu.frontends.popart.ops.operands import aligned, axis_of, check
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op

_SIMPLE = {
    "Abs": (tf.abs, (1, 6), True),
    "Neg": (tf.negative, (1, 6), True),
    "Exp": (tf.exp, (1, 6), True),
    "Log": (tf.math.log, (1, 6), False),
    "Sqrt": (tf.sqrt, (1, 6), False),
    "Reciprocal": (lambda x: 1 / x, (1, 6), True),
    "Relu": (tf.nn.relu, (1, 6), False),
    "Sigmoid": (tf.sigmoid, (1, 6), False),
    "Tanh": (tf.tanh, (1, 6), False),
    "Identity": (tf.identity, (1,), True),
    "Softplus": (tf.math.softplus, (1,), False),
    "Softsign": (tf.nn.softsign, (1,), False),
    "Erf": (tf.math.erf, (9,), False),
    "Sin": (tf.sin, (7,), False),
    "Cos": (tf.cos, (7,), False),
    "Tan": (tf.tan, (7,), False),
    "Asin": (tf.asin, (7,), False),
    "Acos": (tf.acos, (7,), False),
    "Atan": (tf.atan, (7,), False),
    "Sinh": (tf.sinh, (9,), False),
    "Cosh": (tf.cosh, (9,), False),
    "Asinh": (tf.asinh, (9,), False),
    "Acosh": (tf.acosh, (9,), False),
    "Atanh": (tf.atanh, (9,), False),
}
# Those of them that take integers too.
_OF_INTEGERS = ("Abs", "Neg", "Relu", "Identity")


def _of_floats(type_: str, function: Any) -> Any:
    """Returns a function that only the compiler refuses to compute for integers and booleans."""

    def computed(x: Any) -> Any:
        if x.dtype.is_floating:
            return function(x)
        if tf.executing_eagerly() or trace.in_cluster():
            name = datatypes.of_tf(x.dtype).name
            raise poplar_exception(f"{type_} does not take {name}. Add a Cast to FLOAT before it.")
        return tf.identity(x)  # sessions are made of shapes and types alone

    return computed


for _type, (_function, _versions, _folds) in _SIMPLE.items():
    _function = _function if _type in _OF_INTEGERS else _of_floats(_type, _function)
    _of_elements = windows.elementwise(_function)
    op(_type, *_versions, folds=_folds)(lambda x, *, _function=_of_elements: _function(x))


def _round_away(x: Any) -> Any:
    return tf.sign(x) * tf.floor(tf.abs(x) + tf.cast(0.5, x.dtype))


for _type, _function, _versions in (
    ("Ceil", tf.math.ceil, (1, 6)),
    ("Floor", tf.floor, (1, 6)),
    ("Sign", tf.sign, (9,)),
    ("Round", _round_away, (11,)),
):
    op(_type, *_versions, folds=_type == "Floor")(registry.with_zero_gradient(_function))


op("NearbyInt", 1, domain=GRAPHCORE)(registry.with_zero_gradient(tf.round))


op("Round", 1, domain=GRAPHCORE)(registry.with_zero_gradient(_round_away))


op("Expm1", 1, domain=GRAPHCORE)(lambda x: tf.math.expm1(x))


op("Log1p", 1, domain=GRAPHCORE)(lambda x: tf.math.log1p(x))


op("Swish", 1, domain=GRAPHCORE)(lambda x: x * tf.sigmoid(x))


op("Nop", 1, domain=GRAPHCORE)(lambda x: tf.identity(x))


op("Detach", 1, domain=GRAPHCORE, gradient=GradientRule.CUT)(lambda x: tf.identity(x))


@op("TensorRemap", 1, domain=GRAPHCORE)
def _remap(x: Any, *, remap_type: int = 0) -> Any:
    return tf.identity(x)


@op("Gelu", 1, domain=GRAPHCORE)
def _gelu(x: Any) -> Any:
    return tf.nn.gelu(x, approximate=True)


@op("GeluErf", 1, domain=GRAPHCORE)
def _gelu_erf(x: Any) -> Any:
    return tf.nn.gelu(x, approximate=False)


@op("Scale", 1, domain=GRAPHCORE, folds=True)
def _scale(x: Any, *, scale: float) -> Any:
    return x * tf.cast(scale, x.dtype)


@op("IncrementMod", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _increment_mod(x: Any, *, increment: float, modulus: float) -> Any:
    step, size = (_constant(number, x.dtype) for number in (increment, modulus))
    return kernels.remainder(x + step, size)


def _constant(number: float, dtype: Any) -> Any:
    """Returns a number of a type; for integers without its fraction."""
    return tf.constant(int(number) if dtype.is_integer else number, dtype)


def _divide(x: Any, y: Any) -> Any:
    return tf.truncatediv(x, y) if x.dtype.is_integer else x / y


def _fmod(x: Any, y: Any) -> Any:
    """The remainder with the sign of x; a gradient flows to x only."""
    if x.dtype.is_integer:
        return kernels.remainder(x, y)
    whole = tf.stop_gradient(_truncated(x / y))
    return x - whole * tf.stop_gradient(y)


def _truncated(x: Any) -> Any:
    return tf.sign(x) * tf.floor(tf.abs(x))


def _remainder(x: Any, y: Any) -> Any:
    return tf.math.floormod(x, y)


def powers(x: Any, y: Any) -> Any:
    """Returns powers, with zero for gradients at 0 that have no limit or a factor of zero.

    Args:
        x: the base.
        y: the exponent, of the same type.
    """
    if x.dtype.is_integer:
        return kernels.power(x, y)

    @tf.custom_gradient
    def computed(x: Any, y: Any) -> Any:
        result = tf.pow(x, y)

        def backward(above: Any) -> Any:
            nothing = tf.zeros_like(result)
            of_base = tf.where(tf.equal(y, 0), nothing, above * y * tf.pow(x, y - 1))
            is_flat = tf.where(tf.equal(y, 0), x >= 0, tf.logical_and(tf.equal(x, 0), y >= 0))
            of_exponent = tf.where(is_flat, nothing, above * result * tf.math.log(x))
            return _summed_to(of_base, x), _summed_to(of_exponent, y)

        return result, backward

    return computed(x, y)


def _angle(y: Any, x: Any) -> Any:
    """Returns angles, with a gradient that is NaN at the origin."""

    @tf.custom_gradient
    def computed(y: Any, x: Any) -> Any:
        def backward(above: Any) -> Any:
            inverse = 1 / (y * y + x * x)
            return _summed_to(above * x * inverse, y), _summed_to(above * -y * inverse, x)

        return tf.atan2(y, x), backward

    return computed(y, x)


def _product(x: Any, y: Any) -> Any:
    """Returns products; a float32 number times float16 elements is of float16."""
    if {x.dtype, y.dtype} == {tf.float16, tf.float32}:
        wide = x if x.dtype == tf.float32 else y
        if wide.shape.num_elements() == 1:
            x, y = (tf.cast(tensor, tf.float16) for tensor in (x, y))
    check(x, y)
    return windows.elementwise(tf.multiply)(x, y)


_ARITHMETIC = {"Add": tf.add, "Sub": tf.subtract, "Div": _divide, "Pow": powers}


def _binary(type_: str, function: Any) -> None:
    """Enters an arithmetic op with and without the broadcasting of older opsets."""

    def former(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
        return function(*aligned(x, y, axis, broadcast))

    def computed(x: Any, y: Any) -> Any:
        check(x, y)
        return function(x, y)

    op(type_, 1 if type_ == "Pow" else 6, folds=True)(former)
    op(type_, 7, folds=True)(computed)


for _type, _function in _ARITHMETIC.items():
    _binary(_type, windows.elementwise(_function))


@op("Mul", 6, folds=True)
def _mul_6(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return windows.elementwise(tf.multiply)(*aligned(x, y, axis, broadcast))


op("Mul", 7, folds=True)(lambda x, y: _product(x, y))


def _graphcore_binary(
    type_: str, function: Any, gradient: GradientRule = GradientRule.DERIVED
) -> None:
    def computed(x: Any, y: Any) -> Any:
        check(x, y)
        return function(x, y)

    op(type_, 1, domain=GRAPHCORE, gradient=gradient, folds=type_ == "Fmod")(computed)


_graphcore_binary("Atan2", _angle)


_graphcore_binary("Fmod", _fmod)


_graphcore_binary("Remainder", _remainder)


@op("Mod", 10)
def _mod(x: Any, y: Any, *, fmod: int = 0) -> Any:
    check(x, y)
    if not fmod:
        return tf.math.floormod(x, y)
    return _fmod(x, y)


@op("ScaledAdd", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _scaled_add(
    x: Any, y: Any, a: Any = None, b: Any = None, *, scale0: float = 1.0, scale1: float = 1.0
) -> Any:
    if a is not None and b is None:
        if scale0 != 1:
            raise popart_exception(
                f"Unsupported scale0 {scale0}: with a tensor for scale1 it must be 1, or a tensor "
                "too."
            )
        a, b = None, a
    check(x, y)
    first = tf.cast(scale0, x.dtype) if a is None else tf.reshape(tf.cast(a, x.dtype), [])
    second = tf.cast(scale1, x.dtype) if b is None else tf.reshape(tf.cast(b, x.dtype), [])
    return first * x + second * y


def _extreme(type_: str, reduce: Any) -> None:
    """Registers Max or Min; the gradient goes to every input that equals the result."""

    @tf.custom_gradient
    def computed(*tensors: Any) -> Any:
        result = tensors[0]
        for tensor in tensors[1:]:
            result = reduce(result, tensor)

        def gradient(above: Any) -> Any:
            return [
                _summed_to(tf.where(tf.equal(tensor, result), above, tf.zeros_like(above)), tensor)
                for tensor in tensors
            ]

        return result, gradient

    def checked(*tensors: Any) -> Any:
        check(*tensors)
        return computed(*tensors)

    def former(*tensors: Any) -> Any:
        _check_same(tensors)
        return computed(*tensors)

    op(type_, 1, 6)(former)
    op(type_, 8)(checked)


def _summed_to(gradient: Any, tensor: Any) -> Any:
    """Returns a gradient added up to the shape of a tensor that was broadcast."""
    shape, wide = tensor.shape.as_list(), gradient.shape.as_list()
    padded = [1] * (len(wide) - len(shape)) + shape
    axes = [i for i, (own, all_) in enumerate(zip(padded, wide)) if own != all_]
    return tf.reshape(tf.reduce_sum(gradient, axes), shape)


def _check_same(tensors: Any) -> None:
    if len({(tensor.dtype, tuple(tensor.shape)) for tensor in tensors}) > 1:
        raise popart_exception(
            f"Inputs to {operands.KIND} do not all the same type & shape, as before opset 8 they "
            "do "
            "not broadcast."
        )


_extreme("Max", tf.maximum)


_extreme("Min", tf.minimum)


def _sum(*tensors: Any) -> Any:
    check(*tensors)
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def _former_sum(*tensors: Any) -> Any:
    _check_same(tensors)
    return _sum(*tensors)


op("Sum", 1, 6)(_former_sum)


op("Sum", 8)(_sum)


def _divided(total: Any, count: int) -> Any:
    """Divides a sum by the count; refuses integers."""
    return _of_floats("Mean", lambda x: x / tf.cast(count, x.dtype))(total)


op("Mean", 1, 6)(lambda *tensors: _divided(_former_sum(*tensors), len(tensors)))


op("Mean", 8)(lambda *tensors: _divided(_sum(*tensors), len(tensors)))


@op("Clip", 1, 6)
def _clip(x: Any, *, min_: float = -math.inf, max_: float = math.inf) -> Any:
    return tf.clip_by_value(x, _bound(min_, x.dtype), _bound(max_, x.dtype))


@op("Clip", 11, known=(1, 2))
def _clip_inputs(x: Any, least: Any = None, most: Any = None) -> Any:
    low = -math.inf if least is None else float(least)
    high = math.inf if most is None else float(most)
    return tf.clip_by_value(x, _bound(low, x.dtype), _bound(high, x.dtype))


def _bound(value: float, dtype: Any) -> Any:
    """Returns a bound within the range of a type; infinity and ONNX's defaults may be outside."""
    return tf.constant(np.clip(value, float(dtype.min), float(dtype.max)), dtype)


@op("LeakyRelu", 1, 6)
def _leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    return tf.nn.leaky_relu(x, alpha)


@op("Elu", 1, 6)
def _elu(x: Any, *, alpha: float = 1.0) -> Any:
    negative = tf.cast(alpha, x.dtype) * tf.math.expm1(tf.minimum(x, 0))
    return tf.where(x > 0, x, negative)


@op("Selu", 1, 6)
def _selu(x: Any, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Any:
    return tf.cast(gamma, x.dtype) * _elu(x, alpha=alpha)


@op("HardSigmoid", 1, 6)
def _hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    line = tf.cast(alpha, x.dtype) * x + tf.cast(beta, x.dtype)
    return tf.maximum(tf.cast(0, x.dtype), tf.minimum(tf.cast(1, x.dtype), line))


@op("ThresholdedRelu", 10)
def _thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return tf.where(x > tf.cast(alpha, x.dtype), x, tf.zeros_like(x))


@op("Shrink", 9)
def _shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    edge, shift = tf.cast(lambd, x.dtype), tf.cast(bias, x.dtype)
    return tf.where(x < -edge, x + shift, tf.where(x > edge, x - shift, tf.zeros_like(x)))


@op("PRelu", 1, 6, gradient=GradientRule.NONE)
def _prelu_of_channels(x: Any, slope: Any) -> Any:
    """Before opset 7 the slope is one number, or one for each channel."""
    if x.shape.rank > 1 and slope.shape == x.shape[1:2]:
        slope = tf.reshape(slope, [-1, *[1] * (x.shape.rank - 2)])
    return _prelu(x, slope)


@op("PRelu", 7, 9, gradient=GradientRule.NONE)
def _prelu(x: Any, slope: Any) -> Any:
    return tf.where(x < 0, slope * x, x)


@op("Cast", 1, 6, 9, folds=True)
def cast(x: Any, *, to: Any) -> Any:
    """Returns a tensor in another type.

    Args:
        x: the tensor.
        to: the type, by name or by its number in files.
    """
    type_ = datatypes.named(to) if isinstance(to, str) else datatypes.of_onnx(to)
    return tf.cast(x, datatypes.for_device(type_).tf)


_REFUSED = GradientRule.REFUSED
_BINARY = {
    "And": (tf.logical_and, (1,), (7,)),
    "Or": (tf.logical_or, (1,), (7,)),
    "Xor": (tf.math.logical_xor, (1,), (7,)),
    "Equal": (tf.equal, (1,), (7, 11)),
    "Greater": (tf.greater, (1,), (7, 9)),
    "Less": (tf.less, (1,), (7, 9)),
}


def _enter(type_: str, function: Any, former: tuple[int, ...], versions: tuple[int, ...]) -> None:
    """Enters an op with and without the broadcasting of older opsets."""

    def computed_before(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
        return function(*aligned(x, y, axis, broadcast))

    def computed(x: Any, y: Any) -> Any:
        check(x, y)
        return function(x, y)

    op(type_, *former, gradient=_REFUSED)(computed_before)
    op(type_, *versions, gradient=_REFUSED)(computed)


for _type, _row in _BINARY.items():
    _enter(_type, *_row)


op("Not", 1, gradient=_REFUSED)(lambda x: tf.logical_not(x))


op("IsNaN", 9, gradient=GradientRule.NONE)(lambda x: tf.math.is_nan(x))


@op("IsInf", 10, gradient=GradientRule.NONE)
def _is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    wanted = tf.logical_or(
        tf.logical_and(x > 0, bool(detect_positive)), tf.logical_and(x < 0, bool(detect_negative))
    )
    return tf.logical_and(tf.math.is_inf(x), wanted)


@op("Where", 9)
def _where(condition: Any, x: Any, y: Any) -> Any:
    check(x, y)
    return tf.where(condition, x, y)


def _invert_xor(x: Any, y: Any) -> Any:
    return tf.bitwise.invert(tf.bitwise.bitwise_xor(x, y))


#: What ops of two integers compute bit by bit.
BITS = {
    "BitwiseAnd": tf.bitwise.bitwise_and,
    "BitwiseOr": tf.bitwise.bitwise_or,
    "BitwiseXor": tf.bitwise.bitwise_xor,
    "BitwiseXnor": _invert_xor,
}


def enter_bits(type_: str, function: Any, domain: str = GRAPHCORE, version: int = 1) -> None:
    """Enters an op that computes bit by bit.

    Args:
        type_: type of the op.
        function: its function.
        domain: its domain.
        version: version of the domain that it is as of.
    """

    def computed(x: Any, y: Any) -> Any:
        check(x, y)
        shape = tf.broadcast_static_shape(x.shape, y.shape)
        return function(tf.broadcast_to(x, shape), tf.broadcast_to(y, shape))

    op(type_, version, domain=domain, gradient=_REFUSED)(computed)


for _type, _function in BITS.items():
    enter_bits(_type, _function)


op("BitwiseNot", 1, domain=GRAPHCORE, gradient=_REFUSED)(lambda x: tf.bitwise.invert(x))


@op("Bucketize", 1, domain=GRAPHCORE, gradient=GradientRule.NONE)
def _bucketize(x: Any, boundaries: Any, *, right: int = 0) -> Any:
    if x.dtype != boundaries.dtype:
        raise popart_exception(
            f"Bucketize needs equal data types. Received: {x.dtype.name}, {boundaries.dtype.name}"
        )
    if boundaries.shape.rank != 1:
        raise popart_exception(
            f"The boundaries of Bucketize must have rank 1. Received: {boundaries.shape}"
        )
    if right not in (0, 1):
        raise popart_exception(f"The attribute right of Bucketize is 0 or 1. Received: {right}")
    flat = tf.reshape(x, [-1])
    found = tf.searchsorted(boundaries, flat, side="right" if right else "left")
    if x.dtype.is_floating:
        found = tf.where(tf.math.is_nan(flat), boundaries.shape[0], found)
    return tf.reshape(found, x.shape)


_VERSIONS = (10, 13, 19, 21, 23)


@op("QuantizeLinear", *_VERSIONS, gradient=GradientRule.NONE)
def _quantize(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    type_ = tf.uint8 if zero is None else zero.dtype
    if zero is None and output_dtype:
        type_ = datatypes.for_device(datatypes.of_onnx(output_dtype)).tf
    if not type_.is_integer:
        raise popart_exception(
            f"QuantizeLinear only makes integers. Received: {operands.type_name(type_)}"
        )
    whole = tf.round(
        tf.cast(x, tf.float32) / _spread(tf.cast(scale, tf.float32), x, axis, block_size)
    )
    if zero is not None:
        whole += _spread(tf.cast(zero, tf.float32), x, axis, block_size)
    return tf.cast(tf.clip_by_value(whole, type_.min, type_.max), type_)


@op("DequantizeLinear", *_VERSIONS)
def _dequantize(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    steps = tf.cast(x, tf.float32)
    if zero is not None:
        steps -= _spread(tf.cast(zero, tf.float32), x, axis, block_size)
    type_ = scale.dtype
    if output_dtype:
        type_ = datatypes.for_device(datatypes.of_onnx(output_dtype)).tf
    return tf.cast(steps * _spread(tf.cast(scale, tf.float32), x, axis, block_size), type_)


def _spread(values: Any, x: Any, axis: int, block_size: int) -> Any:
    """Returns scales of a tensor, of slices of an axis or of blocks along it, to broadcast."""
    if values.shape.num_elements() == 1:
        return tf.reshape(values, [])
    number = axis_of(axis, x.shape.rank)
    if block_size:
        repeated = tf.repeat(values, block_size, number)
        return tf.gather(repeated, tf.range(x.shape[number]), axis=number)
    return tf.reshape(values, [-1 if i == number else 1 for i in range(x.shape.rank)])
