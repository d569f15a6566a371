"""Sequences that are packed one after the other: PackedDataBlock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.control_flow.iterations import iterated
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, op


@op("PackedDataBlock", 1, domain=GRAPHCORE)
def _packed_data_block(
    *inputs: Any,
    maxSequenceLengths: Any,
    resultSize: int,
    callbackBatchSize: int,
    callback: onnx.GraphProto,
    context: Any,
) -> Any:
    if len(inputs) % 3 != 2 or len(inputs) // 3 != len(maxSequenceLengths):
        raise popart_exception(
            "PackedDataBlock takes data, offsets and lengths for each of its "
            f"{len(maxSequenceLengths)} maxSequenceLengths, then offsets and lengths of the "
            f"result. Received: {len(inputs)} inputs"
        )
    *given, offsets, lengths = inputs
    sequences = offsets.shape[0]
    if sequences % callbackBatchSize:
        raise popart_exception(
            f"PackedDataBlock: the number of sequences, {sequences}, must be a multiple of "
            f"callbackBatchSize, {callbackBatchSize}."
        )
    batches = sequences // callbackBatchSize
    unpacked = []
    for i, longest in enumerate(maxSequenceLengths):
        data, first, counts = given[3 * i : 3 * i + 3]
        rows = _unpacked(data, first, counts, longest)
        shape = [batches, callbackBatchSize, *rows.shape[1:]]
        unpacked.append(tf.reshape(rows, shape))
    subgraph = context.subgraph(callback)

    def step(i: Any, goes_on: Any, _: Sequence[Any]) -> list[Any]:
        return [goes_on, *subgraph([rows[i] for rows in unpacked], i)]

    (results,) = iterated("PackedDataBlock", step, batches, tf.constant(True), [])
    rows = tf.reshape(results, [sequences, *results.shape[2:]])
    return _packed(rows, offsets, lengths, resultSize)


def _rows_of(offsets: Any, lengths: Any, longest: int) -> tuple[Any, Any]:
    """Returns the row of each element of sequences, and whether there is one."""
    steps = tf.range(longest)
    rows = tf.cast(offsets, tf.int32)[:, tf.newaxis] + steps
    return rows, steps < tf.cast(lengths, tf.int32)[:, tf.newaxis]


def _unpacked(data: Any, offsets: Any, lengths: Any, longest: int) -> Any:
    """Returns sequences one beside the other, with zeros after their ends."""
    rows, inside = _rows_of(offsets, lengths, longest)
    found = tf.gather(data, tf.where(inside, rows, 0))
    mask = tf.reshape(inside, [*inside.shape, *[1] * (data.shape.rank - 1)])
    return tf.where(mask, found, tf.zeros_like(found))


def _packed(sequences: Any, offsets: Any, lengths: Any, size: int) -> Any:
    """Returns sequences one after the other; rows that belong to none are zero."""
    rows, inside = _rows_of(offsets, lengths, sequences.shape[1])
    # What is after the end of a sequence goes to a row that is cut off.
    places = tf.where(inside, rows, size)
    shape = [size + 1, *sequences.shape[2:]]
    packed = tf.tensor_scatter_nd_update(
        tf.zeros(shape, sequences.dtype), places[..., tf.newaxis], sequences
    )
    return packed[:size]
