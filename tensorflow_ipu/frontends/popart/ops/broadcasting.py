"""Shapes and types of ops with two or more inputs that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import texts


def check(*tensors: Any) -> None:
    """Refuses inputs of other types, or shapes that do not broadcast.

    Args:
        *tensors: the inputs.

    Raises:
        popart_exception: If they do not fit each other.
    """
    for left, right in zip(tensors, tensors[1:]):
        if left.dtype != right.dtype:
            types = " and ".join(texts.type_name(tensor.dtype) for tensor in (left, right))
            shapes = " and ".join(texts.shape(tensor.shape) for tensor in (left, right))
            raise popart_exception(
                f"np broadcasting failed on '{texts.OP}', incompatible types {types} (shapes "
                f"{shapes})"
            )
        try:
            tf.broadcast_static_shape(left.shape, right.shape)
        except ValueError:
            raise popart_exception(
                f"np broadcasting failed on '{texts.OP}', frames {texts.shape(left.shape)} and "
                f"{texts.shape(right.shape)} are not aligned"
            ) from None


def aligned(x: Any, y: Any, axis: int | None, broadcast: int) -> tuple[Any, Any]:
    """Returns two inputs for ops before opset 7, where broadcasting is asked for.

    Args:
        x: the first input.
        y: the second one.
        axis: the dimension of `x` that the first one of `y` goes with; the last ones by default.
        broadcast: whether `y` broadcasts.
    """
    if broadcast and axis is not None:
        trailing = x.shape.rank - (axis % max(1, x.shape.rank)) - y.shape.rank
        y = tf.reshape(y, [*y.shape.as_list(), *[1] * trailing])
    check(x, y)
    return x, y


def axis_of(axis: int, rank: int, name: str = "Axis") -> int:
    """Returns an axis counted from the front.

    Args:
        axis: the axis; negative ones count from the back.
        rank: number of dimensions.
        name: its name in errors.

    Raises:
        popart_exception: If there is no such dimension.
    """
    if not -max(rank, 1) <= axis < max(rank, 1):
        bounds = f"[{-max(rank, 1)}, {max(rank, 1) - 1}]"
        raise popart_exception(f"{name} {axis} is out of acceptable range {bounds}")
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int] | None, rank: int) -> list[int]:
    """Returns axes counted from the front; all if there are none.

    Args:
        axes: the axes.
        rank: number of dimensions.
    """
    return [axis_of(int(a), rank) for a in axes] if axes is not None else list(range(rank))
