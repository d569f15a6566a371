"""Embedding lookups, on the device or on the host: the public module `ipu.embedding_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops import serial_loop
from tensorflow_ipu.ops.host_embeddings import (
    HostEmbedding,
    HostEmbeddingOptimizerSpec,
    HostEmbeddingScope,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)

__all__ = [
    "HostEmbedding",
    "HostEmbeddingOptimizerSpec",
    "HostEmbeddingSGDGAOptimizerSpec",
    "HostEmbeddingScope",
    "create_host_embedding",
    "embedding_lookup",
]


def embedding_lookup(
    params: Any,
    ids: Any,
    name: str | None = None,
    serialization_factor: int = 1,
    indices_are_sorted: bool = False,
) -> tf.Tensor:
    """Looks up rows of a table.

    Args:
        params: the table, one tensor or variable of rank >= 1.
        ids: int32, any shape. A row that the table does not have is no error: what is found is
            undefined with one lookup, and zeros with several.
        name: name for the operation.
        serialization_factor: with more than 1, a loop of so many iterations looks into one part of
            the table after the other, along the first dimension, which it has to divide. Its
            gradient is such a loop too. The values are the same.
        indices_are_sorted: a promise about `ids`, of no effect here.

    Returns:
        The rows, `ids.shape + params.shape[1:]`, of the type of `params`. The gradient of `params`
        is dense.

    Raises:
        TypeError: `ids` are not integers.
        ValueError: `params` is a list or a scalar, or the factor is less than 1 or does not divide
            the rows.
    """
    del indices_are_sorted
    if isinstance(params, (list, tuple)):
        raise ValueError(
            "params must be a single tensor, the complete table. Received: a "
            f"{type(params).__name__} of {len(params)}"
        )
    with tf.name_scope(name or "embedding_lookup"):
        table, ids = tf.convert_to_tensor(params), tf.convert_to_tensor(ids)
        if not ids.dtype.is_integer:
            raise TypeError(f"ids must be of the type int32. Received: {ids.dtype.name}")
        if table.shape.rank in (None, 0) or table.shape[0] is None:
            raise ValueError(
                "params must have a rank of at least 1, and a number of rows that is known. "
                f"Received: shape {table.shape}"
            )
        factor = serial_loop.check_factor(
            serialization_factor, table.shape[0], "the 0th dimension of params"
        )
        ids = tf.cast(ids, tf.int32)
        return _lookup(table, ids) if factor == 1 else _serialized_lookup(table, ids, factor)


def _lookup(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Looks up all at once."""
    # The gradient of a reshape is dense, that of a gather alone is not.
    dense = tf.reshape(table, _shape(table))
    # TensorFlow's kernel refuses ids out of range.
    return tf.gather(dense, tf.clip_by_value(ids, 0, table.shape[0] - 1))


def _serialized_lookup(table: tf.Tensor, ids: tf.Tensor, factor: int) -> tf.Tensor:
    """Looks into one part of the table after the other."""
    inner = _shape(table)[1:]
    result_shape = tf.concat([tf.shape(ids), tf.cast(inner, tf.int32)], 0)
    flat = tf.reshape(ids, [-1])
    static = ids.shape.concatenate(table.shape[1:])

    @tf.custom_gradient
    def lookup(table: tf.Tensor) -> Any:
        def gradient(rows: tf.Tensor) -> tf.Tensor:
            rows = tf.reshape(rows, [-1, *inner])
            return _serialized_gradient(rows, flat, _shape(table), factor)

        return _rows_of_parts(table, flat, factor), gradient

    return tf.ensure_shape(tf.reshape(lookup(table), result_shape), static)


def _rows_of_parts(table: tf.Tensor, ids: tf.Tensor, factor: int) -> tf.Tensor:
    """Returns the rows `ids`, [n], of a table."""
    inner = _shape(table)[1:]
    size = table.shape[0] // factor

    def step(index: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
        part = serial_loop.slice_of(table, 0, index, size)
        local = ids - index * size
        inside = tf.reshape((local >= 0) & (local < size), [-1, *[1] * len(inner)])
        return tf.where(inside, tf.gather(part, tf.clip_by_value(local, 0, size - 1)), found)

    return serial_loop.fold(factor, step, tf.zeros([_shape(ids)[0], *inner], table.dtype))


def _serialized_gradient(
    rows: tf.Tensor, ids: tf.Tensor, shape: list[Any], factor: int
) -> tf.Tensor:
    """Adds rows, [n, ...], to where `ids` say in a table of zeros, one part after the other."""
    size = shape[0] // factor

    def piece(index: tf.Tensor) -> tf.Tensor:
        local = ids - index * size
        # TensorFlow leaves out negative ids.
        local = tf.where(local < size, local, -1)
        return tf.math.unsorted_segment_sum(rows, local, size)

    pieces = serial_loop.stack(factor, piece, [size, *shape[1:]], rows.dtype)
    return tf.reshape(pieces, shape)


def _shape(tensor: tf.Tensor) -> list[Any]:
    """Returns the sizes of a tensor's dimensions: ints where they are known, else tensors."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]
