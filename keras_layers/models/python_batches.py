"""Makes datasets of Python generators and `keras.utils.Sequence` objects."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.versions import keras2

data_adapter = keras2.module("engine.data_adapter")
data_utils = keras2.module("utils.data_utils")


def gives_batches(x: Any) -> bool:
    """Returns whether Python code gives the batches one by one.

    Args:
        x: what `fit`, `evaluate` or `predict` was called with.
    """
    return isinstance(x, data_utils.Sequence) or callable(getattr(x, "__next__", None))


def dataset(x: Any, shuffle: bool, partial_batches: bool) -> tuple[tf.data.Dataset, int | None]:
    """Makes a dataset with the shapes of its first batch.

    Args:
        x: a generator, another iterator, or a `keras.utils.Sequence`.
        shuffle: whether the batches of a Sequence come in another order in each epoch.
        partial_batches: whether the last batch of a Sequence may have fewer rows.

    Returns:
        The dataset, of one epoch for a Sequence, and its number of batches if that is known.

    Raises:
        ValueError: If there is no batch, or the last one of a Sequence has fewer rows.
    """
    if isinstance(x, data_utils.Sequence):
        return _of_sequence(x, shuffle, partial_batches)
    first = next(x, None)
    if first is None:
        raise ValueError(f"The generator gives no batch. Received: x={x!r}")
    # The same batches go on where the dataset is read again: Python cannot begin anew.
    rest = map(_batch, itertools.chain([first], x))
    return tf.data.Dataset.from_generator(lambda: rest, output_signature=_spec(_batch(first))), None


def _of_sequence(
    x: Any, shuffle: bool, partial_batches: bool
) -> tuple[tf.data.Dataset, int | None]:
    size = len(x)
    if not size:
        raise ValueError(f"The Sequence has no batch. Received: x={x!r}")
    spec = _spec(_batch(x[0]))
    if size > 1 and _spec(_batch(x[size - 1])) != spec:
        if not partial_batches:
            raise ValueError(
                f"The last batch of the Sequence has other shapes than the first: "
                f"{_spec(_batch(x[size - 1]))} and {spec}. Programs on the IPU have fixed shapes. "
                "Leave those samples out, or let fit() pad the last batch: "
                "model.set_partial_batch_options(pad_in_fit=True)."
            )
        spec = tf.nest.map_structure(
            lambda one: tf.TensorSpec([None, *one.shape[1:]], one.dtype), spec
        )

    def epoch() -> Iterator[Any]:
        order = list(range(size))
        if shuffle:
            random.shuffle(order)
        for index in order:
            yield _batch(x[index])
        x.on_epoch_end()

    batches = tf.data.Dataset.from_generator(epoch, output_signature=spec)
    return batches.apply(tf.data.experimental.assert_cardinality(size)), size


def _batch(element: Any) -> Any:
    """Returns a batch as arrays, with the floating-point type of Keras."""
    parts = data_adapter.unpack_x_y_sample_weight(element)
    packed = data_adapter.pack_x_y_sample_weight(*parts)
    return tf.nest.map_structure(_array, tf.__internal__.nest.list_to_tuple(packed))


def _array(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if np.issubdtype(array.dtype, np.floating) and array.dtype != np.float16:
        return array.astype(tf.keras.backend.floatx())
    return array


def _spec(batch: Any) -> Any:
    return tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), batch)
