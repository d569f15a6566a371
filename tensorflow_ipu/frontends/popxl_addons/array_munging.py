"""Splits and joins arrays of the host, for tensors that are spread over replicas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "handle_negative_axis",
    "pad_axis",
    "repeat",
    "repeat_axis",
    "repeat_shard",
    "shard",
    "shard2D",
    "split2D",
    "squeeze_safe",
    "tensor_parallel_input",
    "tensor_parallel_output",
    "unshard",
    "unshard2D",
    "unshard_arrays",
]


def handle_negative_axis(x: np.ndarray, axis: int) -> int:
    """Returns an axis counted from the first.

    Args:
        x: an array.
        axis: one of its axes; negative ones count from the last.

    Raises:
        IndexError: If it has no such axis.
    """
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"axis {axis} is out of range for an array of {x.ndim} dimensions.")
    return axis % x.ndim


def shard(x: np.ndarray, n: int, axis: int) -> np.ndarray:
    """Splits an array into equal parts.

    Args:
        x: the array.
        n: how many parts.
        axis: the axis that is split.

    Returns:
        The parts, `(n, ...)`.

    Raises:
        ValueError: If they are not equal.
    """
    return np.stack(np.split(x, n, handle_negative_axis(x, axis)))


def unshard(x: np.ndarray, axis: int) -> np.ndarray:
    """Joins the parts that `shard` made.

    Args:
        x: the parts, `(n, ...)`.
        axis: the axis that they are joined along.
    """
    return unshard_arrays(list(x), axis)


def unshard_arrays(xs: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Joins arrays.

    Args:
        xs: the arrays.
        axis: the axis that they are joined along.
    """
    return np.concatenate(xs, axis)


def repeat(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Returns copies of an array along a new axis.

    Args:
        x: the array.
        n: how many copies.
        axis: the new axis.
    """
    return np.repeat(np.expand_dims(x, axis), n, axis)


def repeat_axis(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Returns copies of an array one after the other along an axis.

    Args:
        x: the array.
        n: how many copies.
        axis: the axis.
    """
    return np.concatenate([x] * n, handle_negative_axis(x, axis))


def split2D(  # noqa: N802
    x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int
) -> list[list[np.ndarray]]:
    """Splits an array along two axes.

    Args:
        x: the array.
        n_1: how many parts along the first.
        n_2: how many parts along the second.
        axis_1: the first axis.
        axis_2: the second axis.

    Returns:
        For each part along the first axis the parts along the second.
    """
    return [np.split(part, n_2, axis_2) for part in np.split(x, n_1, axis_1)]


def shard2D(  # noqa: N802
    x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int
) -> np.ndarray:
    """Splits an array along two axes.

    Args:
        x: the array.
        n_1: how many parts along the first.
        n_2: how many parts along the second.
        axis_1: the first axis.
        axis_2: the second axis.

    Returns:
        The parts, `(n1 * n2, ...)`, those of the second axis next to each other.
    """
    return np.stack([part for row in split2D(x, n_1, n_2, axis_1, axis_2) for part in row])


def unshard2D(  # noqa: N802
    x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int
) -> np.ndarray:
    """Joins the parts that `shard2D` made.

    Args:
        x: the parts, `(n1 * n2, ...)`.
        n_1: how many parts along the first axis.
        n_2: how many parts along the second.
        axis_1: the first axis.
        axis_2: the second axis.
    """
    rows = [unshard(x[i * n_2 : (i + 1) * n_2], axis_2) for i in range(n_1)]
    return unshard_arrays(rows, axis_1)


def repeat_shard(
    x: np.ndarray,
    n_repeats: int,
    n_shards: int,
    shard_axis: int,
    sharded_tensor: str = "contiguous",
) -> np.ndarray:
    """Splits an array into parts, and repeats them.

    Args:
        x: the array.
        n_repeats: how many copies of each part.
        n_shards: how many parts.
        shard_axis: the axis that is split.
        sharded_tensor: "contiguous" for all parts one after the other, again and again; "strided"
            for the copies of each part next to each other.

    Returns:
        The copies, `(n_shards * n_repeats, ...)`.

    Raises:
        ValueError: If `sharded_tensor` is another value.
    """
    parts = shard(x, n_shards, shard_axis)
    if sharded_tensor == "contiguous":
        return repeat_axis(parts, n_repeats)
    if sharded_tensor == "strided":
        return np.repeat(parts, n_repeats, 0)
    raise ValueError(
        f"sharded_tensor must be 'contiguous' or 'strided'. Received: {sharded_tensor!r}"
    )


def tensor_parallel_input(
    input_data: np.ndarray,
    tp: int,
    rf: int,
    repeat_fn: Callable[[np.ndarray, int], np.ndarray] | None = None,
) -> np.ndarray:
    """Lays out batches for replicas, some of which work on one batch together.

    Args:
        input_data: batches, `(batches, ...)`.
        tp: how many replicas that follow each other get the same batch.
        rf: how many replicas there are.
        repeat_fn: takes the data of a replica and its number among those of its batch; returns
            what it gets.

    Returns:
        What `Session.run` takes: `(batches * tp / rf, rf, ...)` without dimensions of 1 at the
        beginning.

    Raises:
        ValueError: If `tp` is larger than, or no divisor of, the number of replicas, or the batches
            cannot be shared out.
    """
    _check_parallel(tp, rf)
    batches = np.asarray(input_data)
    if batches.shape[0] % (rf // tp):
        raise ValueError(f"{batches.shape[0]} batches cannot be shared by {rf // tp} replicas.")
    groups = batches.reshape(-1, rf // tp, *batches.shape[1:])
    copies: list[Any] = [groups if repeat_fn is None else repeat_fn(groups, i) for i in range(tp)]
    laid = np.stack(copies, 2)
    laid = laid.reshape(groups.shape[0], rf, *laid.shape[3:])
    return squeeze_safe(laid, (0, 1))


def tensor_parallel_output(
    output_data: np.ndarray,
    num_host_transfers: int,
    tp: int,
    rf: int,
    data_shape: Sequence[int],
    tp_identical: bool = True,
    true_num_host_transfers: int | None = None,
) -> np.ndarray:
    """Returns the samples that replicas stored, where some work on one batch together.

    Args:
        output_data: the result of `Session.run`: `(num_host_transfers, rf, ...)`, without
            dimensions of 1 at the beginning.
        num_host_transfers: how often each replica stored.
        tp: how many replicas that follow each other have the same batch.
        rf: how many replicas there are.
        data_shape: the shape of a sample.
        tp_identical: whether the replicas of a batch stored the same. Then one copy is returned.
        true_num_host_transfers: how many of the transfers count, from the first; all by default.

    Returns:
        `(samples, *data_shape)`; if the replicas of a batch differ, `(samples, tp, *data_shape)`.

    Raises:
        ValueError: If `tp` is larger than, or no divisor of, the number of replicas, or the data do
            not have as many elements.
    """
    _check_parallel(tp, rf)
    shape = tuple(data_shape)
    found = np.asarray(output_data)
    least = num_host_transfers * rf * math.prod(shape)
    if not least or found.size % least:
        raise ValueError(
            f"Expected an array of {num_host_transfers} transfers of {rf} replicas, with samples "
            f"of the shape {shape}. Received: shape={found.shape}"
        )
    found = found.reshape(num_host_transfers, rf // tp, tp, -1, *shape)
    found = found[:true_num_host_transfers]
    if tp_identical:
        return found[:, :, 0].reshape(-1, *shape)
    return np.moveaxis(found, 2, 3).reshape(-1, tp, *shape)


def _check_parallel(tp: int, rf: int) -> None:
    """Refuses groups of replicas that do not fill all replicas."""
    if tp > rf or rf % tp:
        raise ValueError(f"tp={tp} must be a divisor of rf={rf}, the number of replicas.")


def pad_axis(x: np.ndarray, n: int, axis: int, value: float = 0) -> np.ndarray:
    """Makes an axis longer.

    Args:
        x: the array.
        n: length of the axis.
        axis: the axis.
        value: the element that fills the end.
    """
    axis = handle_negative_axis(x, axis)
    widths = [(0, n - dim if position == axis else 0) for position, dim in enumerate(x.shape)]
    return np.pad(x, widths, constant_values=value)


def squeeze_safe(x: np.ndarray, axis: int | Sequence[int] | None = None) -> np.ndarray:
    """Removes axes whose length is 1.

    Args:
        x: the array.
        axis: the axis, or several; all by default. Those that are longer stay.

    Raises:
        IndexError: If the array has no such axis.
    """
    if axis is None:
        return np.squeeze(x)
    axes = {handle_negative_axis(x, one) for one in np.atleast_1d(axis).tolist()}
    return np.squeeze(x, tuple(sorted(one for one in axes if x.shape[one] == 1)))
