"""Names that codelet expressions are written with: the public module `ipu.vertex_edsl`.

For the functions that `custom_ops.codelet_expression_op` takes.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tensorflow_ipu.ops.codelet_expressions import Constant, Expression


def constant(value: int | float | bool) -> Expression:
    """Makes an expression of a number.

    Args:
        value: an int (then its type is int32, or int64 if it needs that) or a float (float32).

    Returns:
        The expression.

    Raises:
        TypeError: It is not a number.
        ValueError: It is an int of more than 64 bits.
    """
    if isinstance(value, Expression) or not isinstance(value, (numbers.Real, np.bool_)):
        raise TypeError(f"vertex_edsl.constant takes an int or a float. Received: {value!r}")
    if not isinstance(value, (numbers.Integral, np.bool_)):
        return Constant(float(value), tf.float32)
    number = int(value)
    for dtype in (tf.int32, tf.int64):
        if dtype.min <= number <= dtype.max:
            return Constant(number, dtype)
    raise ValueError(f"vertex_edsl.constant takes ints of up to 64 bits. Received: {value!r}")


def let(value: Expression, body: Callable[[Expression], Expression]) -> Expression:
    """Names a part of an expression: `let(a * b, lambda t: t + t * t)`.

    Args:
        value: the part. It is computed once.
        body: takes it and returns the whole expression.

    Returns:
        What `body` returns.

    Raises:
        TypeError: One of them is something else.
    """
    if not isinstance(value, Expression):
        raise TypeError(f"vertex_edsl.let takes an expression first. Received: {value!r}")
    if not callable(body):
        raise TypeError(f"vertex_edsl.let takes a function second. Received: {body!r}")
    result = body(value)
    if not isinstance(result, Expression):
        raise TypeError(
            f"The function given to vertex_edsl.let must return an expression. Received: {result!r}"
        )
    return result
