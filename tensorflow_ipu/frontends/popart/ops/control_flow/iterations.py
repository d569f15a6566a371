"""Loops over the iterations of a graph, and the types of what it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph as func_graph_lib

from tensorflow_ipu.frontends.popart.errors import popart_exception


def iterated(type_: str, step: Any, count: int, begins: Any, carried: Sequence[Any]) -> list[Any]:
    """Runs a step again and again, while its first result is true.

    Args:
        type_: the op, for errors.
        step: takes the number of the iteration, whether it goes on, and the values that are
            carried; returns whether to go on, these values, and others to stack.
        count: the largest number of iterations.
        begins: whether there is a first one.
        carried: the values before it.

    Returns:
        The values after the last iteration; and of the others, for each a tensor with a new first
        dimension of `count`, zero where there was no iteration.

    Raises:
        popart_exception: If what is carried has another shape or type after an iteration.
    """
    types = types_of(lambda: step(tf.constant(0), begins, carried))[1:]
    for tensor, (dtype, shape) in zip(carried, types):
        if (tensor.dtype.name, tensor.shape.as_list()) != (dtype, shape):
            raise popart_exception(
                f"{type_}: a tensor that is carried is {tensor.dtype.name} "
                f"{tensor.shape.as_list()} before an iteration, and {dtype} {shape} after it."
            )
    arrays = [
        tf.TensorArray(dtype, count, element_shape=shape) for dtype, shape in types[len(carried) :]
    ]

    def iterate(i: Any, goes_on: Any, values: Any, stacked: Any) -> Any:
        goes_on, *results = step(i, goes_on, values)
        kept, others = results[: len(values)], results[len(values) :]
        return i + 1, goes_on, kept, [a.write(i, value) for a, value in zip(stacked, others)]

    _, _, values, stacked = tf.while_loop(
        lambda i, goes_on, *_: goes_on,
        iterate,
        (tf.constant(0), begins, list(carried), arrays),
        maximum_iterations=count,
        parallel_iterations=1,
    )
    shapes = [shape for _, shape in types[len(carried) :]]
    return [
        *values,
        *(tf.ensure_shape(array.stack(), [count, *s]) for array, s in zip(stacked, shapes)),
    ]


def types_of(function: Any) -> list[tuple[str, list[int]]]:
    """Returns types and shapes of what a function makes, by putting it where it never runs.

    Args:
        function: makes tensors.
    """
    found: list[tuple[str, list[int]]] = []

    def build() -> list[Any]:
        results = function()
        found.extend((result.dtype.name, result.shape.as_list()) for result in results)
        return []

    func_graph_lib.func_graph_from_py_func("types", build, [], {})
    return found
