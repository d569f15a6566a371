"""Padding of batches with fewer rows, on the host: one program runs batches of any size.

A batch with fewer rows than others is padded with copies of its own rows, and where replicas and
executions take more batches than there are, the last one is repeated. So nothing is computed in the
padding that is not computed with real rows: no division by zero where there was none, say. How many
rows are real is known beforehand: programs get it as a mark of each batch, and the host drops what
they make of the padding.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from tensorflow_ipu.feeds import common
from tensorflow_ipu.keras_layers.models import programs
from tensorflow_ipu.keras_layers.models.data import Data, is_partial, without_remainder
from tensorflow_ipu.keras_layers.models.steps import Steps

# A program has a branch for each number of rows, which takes memory and time to compile.
_MOST_SIZES = 4


@dataclasses.dataclass(frozen=True)
class Batches:
    """A dataset as an infeed reads it, with batches of one size.

    Attributes:
        dataset: Elements are what Keras calls data; with `sizes` they are pairs of that and a
            tuple of marks: the index of the batch's rows in `sizes`, int32, and if an update is
            made of several batches the weight of this one, float32.
        rows: Real rows of each batch, int64, in the order in which they are read. After the last
            one it goes on with the first. None if all rows are real.
        full: Rows of each batch with padding; 0 if all rows are real.
        sizes: The numbers of rows that there are, the largest first, if programs have to know them.
    """

    dataset: tf.data.Dataset
    rows: np.ndarray | None = None
    full: int = 0
    sizes: tuple[int, ...] = ()


def prepared(data: Data, steps: Steps, mode: str, group: int = 1, epochs: int = 1) -> Batches:
    """Returns the batches of a call, all of one size.

    Args:
        data: the batches as they are.
        steps: the steps to run.
        mode: a mode of `programs`. Predictions are made of the padding too.
        group: in training, batches that an update is made of.
        epochs: number of epochs that run.

    Raises:
        ValueError: If there are fewer batches than steps, one without rows, or too many sizes.
    """
    dataset = without_remainder(data, steps.left_out)
    partial = any(map(is_partial, tf.nest.flatten(dataset.element_spec)))
    if not partial and not steps.padding:
        return Batches(dataset)
    count = _batches_until_repeated(data, steps, mode, epochs)
    if count != data.size:
        dataset = dataset.take(count)
    full, rows = data.batch_size, data.rows
    if rows is None and partial:
        dataset, rows = _counted(dataset, count)
    elif rows is None:
        rows = np.full(count, _leading_dimension(dataset))
    rows = rows[:count]
    if full is None or mode != programs.PREDICT:
        full = int(max(rows))
    if partial:
        dataset = _padded(dataset, full)
    if not steps.padding and (rows == full).all():
        return Batches(dataset)
    if steps.padding:
        dataset = _last_repeated(dataset, count, steps.padding)
        rows = np.concatenate([rows, np.zeros(steps.padding, np.int64)])
    if mode == programs.PREDICT:
        return Batches(dataset, rows, full)
    return _marked(dataset, rows, group if mode == programs.TRAIN else 1)


def _batches_until_repeated(data: Data, steps: Steps, mode: str, epochs: int) -> int:
    """Returns how many batches are read before those that were read first come again."""
    if mode != programs.TRAIN or steps.batches == data.size:
        return steps.batches
    # Epochs go on where the one before stopped.
    if data.is_one_dataset and data.size is not None:
        return data.size
    return steps.batches * max(1, epochs)


def _leading_dimension(dataset: tf.data.Dataset) -> int:
    shapes = [spec.shape for spec in tf.nest.flatten(dataset.element_spec)]
    return next((int(shape[0]) for shape in shapes if shape.rank), 1)


def _counted(dataset: tf.data.Dataset, count: int) -> tuple[tf.data.Dataset, np.ndarray]:
    """Counts the rows of batches, which takes reading them.

    Returns:
        The dataset, which now ends with an error if another reading gives other numbers, and the
        rows of each batch.
    """
    specs = tf.nest.flatten(dataset.element_spec)

    def rows_of(*element: Any) -> tf.Tensor:
        tensors = zip(tf.nest.flatten(element), specs)
        return tf.stack([tf.shape(one, tf.int64)[0] for one, spec in tensors if is_partial(spec)])

    def checked(element: Any, expected: tf.Tensor) -> Any:
        message = "A batch of the dataset has another number of rows than when they were counted."
        check = tf.debugging.assert_equal(rows_of(element), expected, message)
        with tf.control_dependencies([check]):
            return tf.nest.map_structure(tf.identity, element)

    logging.info(
        "The dataset is read once to count the rows of its batches, because their shape is not "
        "known. Batch it with drop_remainder=True, or pass arrays, where that takes long."
    )
    with common.on_host():
        # One more, because there has to be one.
        first = tf.data.Dataset.from_tensors(tf.zeros(sum(map(is_partial, specs)), tf.int64))
        counts = first.concatenate(dataset.map(rows_of)).batch(1 + count)
        found = counts.get_single_element().numpy()[1:]
    _check_counts(found, count)
    rows = found[:, 0]
    return tf.data.Dataset.zip((dataset, _repeated(rows))).map(checked), rows


def _check_counts(found: np.ndarray, count: int) -> None:
    """Raises if batches are too few, have no rows, or disagree about their number."""
    if len(found) < count:
        raise ValueError(
            f"Your input does not have enough data: {count} batches are needed, and there are "
            f"{len(found)}. Use dataset.repeat(), fewer epochs or fewer steps."
        )
    for number, rows in enumerate(found):
        if not all(rows == rows[0]):
            raise ValueError(
                f"The dataset has elements of unknown shape, and in batch {number} their first "
                f"dimensions are {rows.tolist()}, but programs on the IPU have fixed shapes: only "
                "the number of rows may be unknown, which all have to share. Pad them in a map."
            )
        if not rows[0]:
            raise ValueError(
                f"Batch {number} of the dataset has no rows. Leave such batches out with "
                "dataset.filter."
            )


def _padded(dataset: tf.data.Dataset, full: int) -> tf.data.Dataset:
    """Pads batches with copies of their rows."""

    def pad(tensor: tf.Tensor, spec: Any) -> tf.Tensor:
        if not is_partial(spec):
            return tensor
        rows = tf.shape(tensor)[0]
        copies = tf.range(full) % rows
        whole = tf.cond(rows == full, lambda: tensor, lambda: tf.gather(tensor, copies))
        return tf.ensure_shape(whole, [full, *tensor.shape[1:]])

    def pad_all(*element: Any) -> Any:
        given = element if isinstance(dataset.element_spec, tuple) else element[0]
        return tf.nest.map_structure(pad, given, dataset.element_spec)

    return dataset.map(pad_all)


def _last_repeated(dataset: tf.data.Dataset, count: int, more: int) -> tf.data.Dataset:
    """Repeats the last of each `count` batches `more` times."""

    def copies(number: tf.Tensor, element: Any) -> tf.data.Dataset:
        is_last = tf.cast(number % count == count - 1, tf.int64)
        return tf.data.Dataset.from_tensors(element).repeat(1 + more * is_last)

    return dataset.enumerate().flat_map(copies)


def _marked(dataset: tf.data.Dataset, rows: np.ndarray, group: int) -> Batches:
    """Adds the marks of batches, of which `group` make an update."""
    sizes = tuple(sorted({int(size) for size in rows}, reverse=True))
    if len(sizes) > _MOST_SIZES:
        raise ValueError(
            f"The batches of the data have {len(sizes)} different numbers of rows, but programs on "
            f"the IPU have fixed shapes, and are made for at most {_MOST_SIZES}. Use "
            f"dataset.unbatch().batch({sizes[0]}). Received batches with {sizes} rows"
        )
    marks: tuple[np.ndarray, ...] = (np.array([sizes.index(size) for size in rows], np.int32),)
    if group > 1:
        weights = _weights(rows, group)
        marks = (np.resize(marks[0], len(weights)), weights)
    return Batches(tf.data.Dataset.zip((dataset, _repeated(marks))), rows, sizes[0], sizes)


def _weights(rows: np.ndarray, group: int) -> np.ndarray:
    """Returns the weight of each batch's mean, so that all rows of an update count the same.

    The weights of an update add up to `group`, as if all of its batches were whole.
    """
    cycle = np.tile(rows, math.lcm(len(rows), group) // len(rows))
    totals = cycle.reshape(-1, group).sum(1)
    return (cycle * group / np.repeat(totals, group)).astype(np.float32)


def _repeated(values: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(values).repeat()
