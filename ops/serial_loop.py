"""Serialization of a large operation into a loop of small ones."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Step = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def check_factor(serialization_factor: Any, size: int | None, dimension: str) -> int:
    """Returns a checked serialization factor.

    Args:
        serialization_factor: the user's argument.
        size: size of the dimension that is split; None if that is not known yet.
        dimension: name of the dimension in messages.

    Raises:
        ValueError: it is no int >= 1, or does not divide the dimension.
    """
    try:
        factor = operator.index(serialization_factor)
    except TypeError:
        factor = 0
    if factor < 1 or isinstance(serialization_factor, bool):
        raise ValueError(
            "serialization_factor must be an int that is at least 1. Received: "
            f"{serialization_factor!r}"
        )
    if size is not None and size % factor:
        raise ValueError(
            f"The serialization_factor ({factor}) must divide the size of {dimension} ({size})."
        )
    return factor


def fold(count: int, step: Step, initial: tf.Tensor) -> tf.Tensor:
    """Runs `step` `count` times in a loop.

    Args:
        count: how often.
        step: takes the index of the iteration and a value, returns the next value.
        initial: the first value.

    Returns:
        The last value, of the shape of `initial`.
    """

    def body(index: tf.Tensor, value: tf.Tensor) -> list[tf.Tensor]:
        following = step(index, value)
        following.set_shape(initial.shape)
        return [index + 1, following]

    _, result = tf.while_loop(
        lambda index, value: index < count,
        body,
        [tf.constant(0), initial],
        parallel_iterations=1,
    )
    return result


def stack(
    count: int, piece: Callable[[tf.Tensor], tf.Tensor], shape: Sequence[Any], dtype: tf.DType
) -> tf.Tensor:
    """Makes pieces in a loop and stacks them.

    Args:
        count: how many pieces.
        piece: takes an index, returns the piece.
        shape: of each piece; entries may be scalar tensors.
        dtype: of each piece.

    Returns:
        The pieces, [count, *shape].
    """

    def step(index: tf.Tensor, pieces: tf.Tensor) -> tf.Tensor:
        return tf.tensor_scatter_nd_update(pieces, [[index]], piece(index)[None])

    return fold(count, step, tf.zeros([count, *shape], dtype))


def slice_of(tensor: tf.Tensor, axis: int, index: tf.Tensor, size: Any) -> tf.Tensor:
    """Returns part `index` of a tensor that is cut along an axis.

    Args:
        tensor: the tensor.
        axis: which, counted from 0.
        index: number of the part.
        size: size of each part along the axis.

    Returns:
        The part, with `size` elements along the axis.
    """
    begin = [index * size if i == axis else 0 for i in range(len(tensor.shape))]
    # All sizes are named: "the rest" would depend on where the part begins.
    sizes = [
        known if known is not None else tf.shape(tensor)[i] for i, known in enumerate(tensor.shape)
    ]
    sizes[axis] = size
    return tf.slice(tensor, begin, sizes)
