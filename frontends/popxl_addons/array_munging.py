"""Splits and joins arrays of the host, for tensors that are spread over replicas."""

from __future__ import annotations

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
    """Joins what `shard` split.

    Args:
        x: the parts, `(n, ...)`.
        axis: the axis that they are joined along.
    """
    return unshard_arrays(list(x), axis)


def unshard_arrays(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Joins arrays.

    Args:
        arrays: the arrays.
        axis: the axis that they are joined along.
    """
    return np.concatenate(arrays, axis)


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
    x: np.ndarray, n1: int, n2: int, axis1: int, axis2: int
) -> list[list[np.ndarray]]:
    """Splits an array along two axes.

    Args:
        x: the array.
        n1: how many parts along the first.
        n2: how many parts along the second.
        axis1: the first axis.
        axis2: the second axis.

    Returns:
        For each part along the first axis the parts along the second.
    """
    return [np.split(part, n2, axis2) for part in np.split(x, n1, axis1)]


def shard2D(  # noqa: N802
    x: np.ndarray, n1: int, n2: int, axis1: int, axis2: int
) -> np.ndarray:
    """Splits an array along two axes.

    Args:
        x: the array.
        n1: how many parts along the first.
        n2: how many parts along the second.
        axis1: the first axis.
        axis2: the second axis.

    Returns:
        The parts, `(n1 * n2, ...)`, those of the second axis next to each other.
    """
    return np.stack([part for row in split2D(x, n1, n2, axis1, axis2) for part in row])


def unshard2D(  # noqa: N802
    x: np.ndarray, n1: int, n2: int, axis1: int, axis2: int
) -> np.ndarray:
    """Joins what `shard2D` split.

    Args:
        x: the parts, `(n1 * n2, ...)`.
        n1: how many parts along the first axis.
        n2: how many parts along the second.
        axis1: the first axis.
        axis2: the second axis.
    """
    rows = [unshard(x[i * n2 : (i + 1) * n2], axis2) for i in range(n1)]
    return unshard_arrays(rows, axis1)


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
    if tp > rf or rf % tp:
        raise ValueError(f"tp={tp} must be a divisor of rf={rf}, the number of replicas.")
    batches = np.asarray(input_data)
    if batches.shape[0] % (rf // tp):
        raise ValueError(f"{batches.shape[0]} batches cannot be shared by {rf // tp} replicas.")
    groups = batches.reshape(-1, rf // tp, *batches.shape[1:])
    copies: list[Any] = [groups if repeat_fn is None else repeat_fn(groups, i) for i in range(tp)]
    laid = np.stack(copies, 2)
    laid = laid.reshape(groups.shape[0], rf, *laid.shape[3:])
    return squeeze_safe(squeeze_safe(laid, 1), 0)


def tensor_parallel_output(
    output_data: np.ndarray,
    tp: int,
    rf: int,
    merge_fn: Callable[[list[np.ndarray]], np.ndarray] | None = None,
) -> np.ndarray:
    """Returns the batches of what replicas stored, some of which worked on one batch together.

    Args:
        output_data: what `Session.run` returns: `(batches * tp / rf, rf, ...)`, without dimensions
            of 1 at the beginning.
        tp: how many replicas that follow each other have the same batch.
        rf: how many replicas there are.
        merge_fn: takes the data of the first replica of each batch, of the second one and so on,
            each `(batches, ...)`; returns the batches. By default those of the first replicas are
            taken: they are the same.

    Returns:
        The batches, `(batches, ...)`.

    Raises:
        ValueError: If `tp` is larger than, or no divisor of, the number of replicas, or there is no
            dimension for these.
    """
    if tp > rf or rf % tp:
        raise ValueError(f"tp={tp} must be a divisor of rf={rf}, the number of replicas.")
    found = np.asarray(output_data)
    if rf == 1:
        return found if merge_fn is None else merge_fn([found])
    if found.shape[1:2] != (rf,):
        found = found[np.newaxis]  # of one row
    if found.shape[1:2] != (rf,):
        raise ValueError(f"Expected an array (rows, {rf}, ...). Received: shape={found.shape}")
    batches = found.reshape(-1, tp, *found.shape[2:])
    return batches[:, 0] if merge_fn is None else merge_fn([batches[:, i] for i in range(tp)])


def pad_axis(x: np.ndarray, n: int, axis: int, value: float = 0) -> np.ndarray:
    """Makes an axis longer.

    Args:
        x: the array.
        n: length of the axis.
        axis: the axis.
        value: what fills the end.
    """
    axis = handle_negative_axis(x, axis)
    widths = [(0, n - dim if position == axis else 0) for position, dim in enumerate(x.shape)]
    return np.pad(x, widths, constant_values=value)


def squeeze_safe(x: np.ndarray, axis: int) -> np.ndarray:
    """Removes an axis if its length is 1.

    Args:
        x: the array.
        axis: the axis.
    """
    return np.squeeze(x, axis) if x.ndim and x.shape[axis] == 1 else x
