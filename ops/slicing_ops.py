"""Copies of runs of rows between tensors: the public module `ipu.slicing_ops`.

A row is what one index into the first dimension gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import tensor_util


def sequence_slice(
    dst: Any, src: Any, num_elems: Any, src_offsets: Any, dst_offsets: Any, zero_unused: bool
) -> tf.Tensor:
    """Copies runs of rows of a tensor to places in another.

    For each i in turn, the rows `src[src_offsets[i]:]` replace the rows `dst[dst_offsets[i]:]`,
    `num_elems[i]` of them. Where runs overlap, the last one counts. Differentiable in `src` and
    `dst`.

    Args:
        dst: `[rows, ...]`, rank 2 or more.
        src: `[other rows, ...]` with the same inner dimensions.
        num_elems: the number of rows of each run, `[runs]`, integers.
        src_offsets: the first row of each in `src`, `[runs]`.
        dst_offsets: the first row of each in `dst`, `[runs]`.
        zero_unused: whether rows that are not written are 0. Otherwise they are those of `dst`.

    Returns:
        A tensor of the shape and type of `dst`. The tensor `dst` does not change.

    Raises:
        ValueError: If the shapes do not go together, or a run that is known when the program is
            built goes beyond a tensor.
    """
    dst, src = _tensors(dst, src)
    runs = _runs(num_elems=num_elems, src_offsets=src_offsets, dst_offsets=dst_offsets)
    _check_range("src", src, runs, "src_offsets")
    _check_range("dst", dst, runs, "dst_offsets")
    with tf.name_scope("sequence_slice"):
        return _slice(
            dst, src, runs["num_elems"], runs["src_offsets"], runs["dst_offsets"], zero_unused
        )


def sequence_slice_unpack(
    src: Any, num_elems: Any, src_offsets: Any, total_elements: int
) -> tf.Tensor:
    """Copies runs of rows of a tensor, one after another, into a new one.

    Args:
        src: `[rows, ...]`, rank 2 or more.
        num_elems: the number of rows of each run, `[runs]`, integers.
        src_offsets: the first row of each in `src`, `[runs]`.
        total_elements: the number of rows of the result. The rows after the last run are 0.

    Returns:
        A tensor `[total_elements, ...]` of the type of `src`.

    Raises:
        ValueError: If the shapes do not go together, or a run that is known when the program is
            built goes beyond a tensor.
    """
    src = _of_rows("src", src)
    runs = _runs(num_elems=num_elems, src_offsets=src_offsets)
    total = _total(total_elements, runs["num_elems"])
    with tf.name_scope("sequence_slice_unpack"):
        zeros = tf.zeros(tf.concat([[total], tf.shape(src)[1:]], 0), src.dtype)
        zeros = tf.ensure_shape(zeros, [total, *src.shape[1:]])
        counts = runs["num_elems"]
        offsets = _one_after_another(counts)
        return sequence_slice(zeros, src, counts, runs["src_offsets"], offsets, False)


def sequence_slice_pack(
    dst: Any, src: Any, num_elems: Any, dst_offsets: Any, zero_unused: bool
) -> tf.Tensor:
    """Copies rows of a tensor, run after run, to places in another; the inverse of unpacking.

    Args:
        dst: `[rows, ...]`, rank 2 or more.
        src: `[other rows, ...]` with the same inner dimensions. The first run begins at row 0, each
            other one where the one before ends.
        num_elems: the number of rows of each run, `[runs]`, integers.
        dst_offsets: the first row of each in `dst`, `[runs]`.
        zero_unused: whether rows that are not written are 0. Otherwise they are those of `dst`.

    Returns:
        A tensor of the shape and type of `dst`. The tensor `dst` does not change.

    Raises:
        ValueError: See `sequence_slice`.
    """
    runs = _runs(num_elems=num_elems, dst_offsets=dst_offsets)
    with tf.name_scope("sequence_slice_pack"):
        counts = runs["num_elems"]
        offsets = _one_after_another(counts)
        return sequence_slice(dst, src, counts, offsets, runs["dst_offsets"], zero_unused)


def _slice(
    dst: tf.Tensor,
    src: tf.Tensor,
    counts: tf.Tensor,
    src_offsets: tf.Tensor,
    dst_offsets: tf.Tensor,
    zero_unused: bool,
) -> tf.Tensor:
    """Finds for each row of the result the row of `src` that it is, and gathers these."""
    rows = tf.range(tf.shape(dst)[0])
    within = rows - dst_offsets[:, tf.newaxis]  # [runs, rows]
    covered = (within >= 0) & (within < counts[:, tf.newaxis])
    # The last run that covers a row, 0 for none.
    last = tf.reduce_max(tf.where(covered, tf.range(1, tf.size(counts) + 1)[:, tf.newaxis], 0), 0)
    used = last > 0
    run = tf.maximum(last - 1, 0)
    source = tf.where(used, rows + tf.gather(src_offsets - dst_offsets, run), 0)
    used = tf.reshape(used, [-1] + [1] * (dst.shape.rank - 1))
    # With zero_unused, `dst` counts nowhere, but has a gradient of zeros.
    kept = tf.where(not zero_unused, dst, tf.zeros([], dst.dtype)) if zero_unused else dst
    return tf.where(used, tf.gather(src, source), kept)


def _total(total_elements: Any, counts: tf.Tensor) -> int:
    """Returns the number of rows of an unpacked tensor.

    Raises:
        ValueError: If it is not known, or the runs are longer.
    """
    total = tensor_util.constant_value(tf.convert_to_tensor(total_elements))
    if total is None or total.ndim or total < 0:
        raise ValueError(
            "total_elements must be an int that is not negative. Received: "
            f"total_elements={total_elements}"
        )
    known = tensor_util.constant_value(counts)
    if known is not None and known.sum() > total:
        raise ValueError(
            f"total_elements must be at least the sum of num_elems, {known.sum()}. Received: "
            f"total_elements={total_elements}"
        )
    return int(total)


def _one_after_another(counts: tf.Tensor) -> tf.Tensor:
    known = tensor_util.constant_value(counts)
    if known is not None:
        return tf.constant(np.cumsum(known) - known, tf.int32)
    return tf.cumsum(counts, exclusive=True)


def _tensors(dst: Any, src: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns both as tensors of one type; a list of numbers takes the type of the other."""
    if tf.is_tensor(src) and not tf.is_tensor(dst):
        dst = tf.convert_to_tensor(dst, src.dtype)
    dst = _of_rows("dst", dst)
    src = _of_rows("src", src if tf.is_tensor(src) else tf.convert_to_tensor(src, dst.dtype))
    if src.dtype != dst.dtype:
        raise ValueError(
            f"src and dst must have the same type. Received: src of {src.dtype.name} and dst of "
            f"{dst.dtype.name}. Cast one with tf.cast."
        )
    if not src.shape[1:].is_compatible_with(dst.shape[1:]):
        raise ValueError(
            "src and dst inner shapes must match. Received: src of shape "
            f"{src.shape} and dst of shape {dst.shape}"
        )
    return dst, src


def _of_rows(argument: str, value: Any) -> tf.Tensor:
    tensor = tf.convert_to_tensor(value)
    if tensor.shape.rank is None or tensor.shape.rank < 2:
        raise ValueError(
            f"{argument} must be of rank 2 or more. Received: {argument} of shape {tensor.shape}"
        )
    return tensor


def _runs(**arguments: Any) -> dict[str, tf.Tensor]:
    """Returns the arguments that describe runs as vectors of int32 of the same length."""
    runs = {name: tf.convert_to_tensor(value) for name, value in arguments.items()}
    for name, tensor in runs.items():
        if not tensor.dtype.is_integer:
            raise ValueError(f"{name} must be integers. Received: {name} of {tensor.dtype.name}")
    shapes = [tensor.shape for tensor in runs.values()]
    first = shapes[0]
    if first.rank != 1 or not first[0] or any(shape != first for shape in shapes):
        *first_names, last_name = runs
        received = ", ".join(f"{name} of shape {tensor.shape}" for name, tensor in runs.items())
        raise ValueError(
            f"{', '.join(first_names)} and {last_name} must have matching, nonzero shapes of rank "
            f"1. Received: {received}"
        )
    return {name: tf.cast(tensor, tf.int32) for name, tensor in runs.items()}


def _check_range(
    argument: str, tensor: tf.Tensor, runs: dict[str, tf.Tensor], offsets: str
) -> None:
    """Checks those runs that are known now against the rows of a tensor, if these are.

    Raises:
        ValueError: If one goes beyond the tensor.
    """
    counts = tensor_util.constant_value(runs["num_elems"])
    firsts = tensor_util.constant_value(runs[offsets])
    if counts is not None and counts.min() < 0:
        raise ValueError(f"num_elems must not be negative. Received: num_elems={counts.tolist()}")
    rows = tensor.shape[0]
    if counts is None or firsts is None or rows is None:
        return
    if firsts.min() < 0 or (firsts + counts).max() > rows:
        raise ValueError(
            f"{offsets} and num_elems must stay within the {rows} rows of {argument}. Received: "
            f"{offsets}={firsts.tolist()}, num_elems={counts.tolist()}"
        )
