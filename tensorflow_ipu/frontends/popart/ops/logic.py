"""Comparisons, logic, bits and choices."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.broadcasting import aligned, check
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, Gradient, op

_REFUSED = Gradient.REFUSED

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
op("IsNaN", 9, gradient=Gradient.NONE)(lambda x: tf.math.is_nan(x))


@op("IsInf", 10, gradient=Gradient.NONE)
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
        function: what it computes.
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


@op("Bucketize", 1, domain=GRAPHCORE, gradient=Gradient.NONE)
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
