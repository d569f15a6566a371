"""Datasets of fixed shapes, made of the data of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.util.notices import warn_once

# --- Generators and sequences ---

data_utils = keras2.module("utils.data_utils")


def gives_batches(x: Any) -> bool:
    """Returns whether Python code gives the batches one by one.

    Args:
        x: what `fit`, `evaluate` or `predict` was called with.
    """
    return isinstance(x, data_utils.Sequence) or callable(getattr(x, "__next__", None))


def python_dataset(
    x: Any, shuffle: bool, partial_batches: bool
) -> tuple[tf.data.Dataset, int | None]:
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


# --- Datasets ---

base_layer_utils = keras2.module("engine.base_layer_utils")
data_adapter = keras2.module("engine.data_adapter")
_UNKNOWN = int(tf.data.experimental.UNKNOWN_CARDINALITY)
_INFINITE = int(tf.data.experimental.INFINITE_CARDINALITY)
# Data in memory of more bytes are worth a word on what is faster.
_LARGE = 2**28
# What lets `fit` take data whose last batch has fewer rows.
_PADDING = "model.set_partial_batch_options(pad_in_fit=True)"


@dataclasses.dataclass(frozen=True)
class Data:
    """Batches for a model.

    Attributes:
        dataset: A dataset of what Keras calls data: `x`, `(x, y)` or `(x, y, sample_weight)`.
        size: Batches of one epoch; None if that is not known.
        is_infinite: Whether the dataset has no end.
        is_one_dataset: Whether all epochs are in the dataset, one after the other. Otherwise the
            dataset is one epoch, unless a number of steps asks for another length.
        batch_size: Batch size of data in memory; None if the dataset has its own.
        rows: Rows of each batch of an epoch, int64, for data in memory whose last batch has fewer.
            None for others: those of a dataset are known when it is read.
    """

    dataset: tf.data.Dataset
    size: int | None
    is_infinite: bool
    is_one_dataset: bool
    batch_size: int | None = None
    rows: np.ndarray | None = None


def from_arguments(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    epochs: int = 1,
    shuffle: Any = False,
    class_weight: Any = None,
    partial_batches: bool = False,
) -> Data:
    """Returns the batches that the arguments of a method mean.

    Args:
        x: inputs: arrays, tensors or structures of them; or a dataset, a generator or a
            `keras.utils.Sequence` with everything.
        y: targets, like `x`.
        sample_weight: weights, like `x`.
        batch_size: samples in a batch; 32 when None. Ignored for a dataset, with a warning.
        steps: batches for an epoch that the user asked for; None for all there are.
        epochs: number of epochs.
        shuffle: whether to shuffle data in memory, as in stock Keras.
        class_weight: weight of each class, by index.
        partial_batches: whether batches may have fewer rows than others.

    Raises:
        ValueError: If there are no data, a batch is smaller than the others and must not be, or an
            element has an unknown shape.
        tf.errors.FailedPreconditionError: If data are float64, and Keras does not cast its inputs.
    """
    if isinstance(x, tf.data.Dataset):
        data = _from_dataset(x, y, sample_weight, batch_size)
    elif gives_batches(x):
        _refuse_besides(x, y, sample_weight)
        dataset, size = python_dataset(x, bool(shuffle), partial_batches)
        data = Data(dataset, size, False, is_one_dataset=False)
    else:
        data = _from_memory(x, y, sample_weight, batch_size, steps, epochs, shuffle)
    if data.rows is not None and not partial_batches:
        _refuse_partial_batch(data, int(data.rows[-1]))
    if data.size == 0:
        _refuse_nothing(x, y)
    dataset = data.dataset
    if class_weight:
        dataset = dataset.map(data_adapter._make_class_weight_map_fn(class_weight))
    dataset = _for_device(dataset, data.batch_size if data.rows is None else None)
    _check_shapes(dataset.element_spec, partial_batches)
    return dataclasses.replace(data, dataset=dataset)


def _from_dataset(x: tf.data.Dataset, y: Any, sample_weight: Any, batch_size: Any) -> Data:
    _refuse_besides(x, y, sample_weight)
    if batch_size is not None:
        # As stock Keras does, but not without a word.
        warn_once(
            "batch_size=%s is ignored: x is a dataset, which has batches already.", batch_size
        )
    size = int(x.cardinality())
    return Data(x, None if size < 0 else size, size == _INFINITE, is_one_dataset=False)


def _refuse_besides(x: Any, y: Any, sample_weight: Any) -> None:
    """Raises if targets or weights are given besides batches that have them."""
    kind = "dataset" if isinstance(x, tf.data.Dataset) else "a generator or keras.utils.Sequence"
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if not data_adapter.is_none_or_empty(value):
            raise ValueError(
                f"`{name}` argument is not supported when using {kind} as input: its elements must "
                f"be (x, y) or (x, y, sample_weight). Received: {name}={value!r}"
            )


def _from_memory(
    x: Any, y: Any, sample_weight: Any, batch_size: Any, steps: Any, epochs: int, shuffle: Any
) -> Data:
    if data_adapter.is_none_or_empty(x):
        _refuse_nothing(x, y)
    if sum(getattr(array, "nbytes", 0) for array in tf.nest.flatten((x, y))) > _LARGE:
        warn_once(
            "Data in memory are copied on the host for every batch. A tf.data.Dataset is faster."
        )
    adapter = data_adapter.select_data_adapter(x, y)(
        x,
        y,
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        sample_weights=sample_weight,
        shuffle=shuffle,
        distribution_strategy=tf.distribute.get_strategy(),
    )
    size, batch = adapter.get_size(), adapter.batch_size()
    rows = None
    if adapter.has_partial_batch():
        rows = np.full(size, batch, np.int64)
        rows[-1] = adapter.partial_batch_size()
    return Data(adapter.get_dataset(), size, False, True, batch, rows)


def _refuse_partial_batch(data: Data, rows: int) -> NoReturn:
    raise ValueError(
        f"The provided set of data has a partial batch of {rows} instead of {data.batch_size} "
        f"samples, the last of {data.size} batches: its size is not a multiple of the batch size, "
        "and programs on the IPU have fixed shapes. Leave those samples out, choose a batch_size "
        f"that divides their number, or let fit() pad the last batch: {_PADDING}."
    )


def _refuse_nothing(x: Any, y: Any) -> NoReturn:
    advice = ""
    if isinstance(x, tf.data.Dataset):
        advice = (
            ", which has no batches. With batch(..., drop_remainder=True), a dataset of fewer "
            "samples than the batch size has none: choose a smaller batch size"
        )
    raise ValueError(
        f"Expect x to be a non-empty array or dataset. Received: x={x!r}, y={y!r}{advice}."
    )


def without_remainder(data: Data, left_out: int) -> tf.data.Dataset:
    """Returns a dataset of all epochs without the last batches of each.

    Args:
        data: all epochs.
        left_out: number of batches to leave out.
    """
    if not left_out or data.size is None:
        return data.dataset
    size = data.size
    numbered = data.dataset.enumerate()
    kept = numbered.filter(lambda number, _: number % size < size - left_out)
    return kept.map(lambda _, element: element)


def _for_device(dataset: tf.data.Dataset, batch_size: int | None) -> tf.data.Dataset:
    """Converts elements to the types of the device and sets the shapes known here."""
    flat = tf.nest.flatten(dataset.element_spec)
    has_float64 = any(getattr(spec, "dtype", None) == tf.float64 for spec in flat)
    if batch_size is None and not has_float64:
        return dataset
    if has_float64 and not base_layer_utils.v2_dtype_behavior_enabled():
        # Layers take the type of their inputs then, so another one would be another model.
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "Unsupported datatype double: the data have float64 values, which the IPU does not "
            "have. They are cast to float32, but not after disable_v2_dtype_behavior(). Cast them "
            f"in the program. Received: element_spec={dataset.element_spec}",
        )

    def convert(tensor: tf.Tensor) -> tf.Tensor:
        if tensor.dtype == tf.float64:
            tensor = tf.cast(tensor, tf.float32)
        if batch_size is not None and tensor.shape.rank:
            tensor = tf.ensure_shape(tensor, [batch_size, *tensor.shape[1:]])
        return tensor

    def convert_all(*element: Any) -> Any:
        converted = tf.nest.map_structure(convert, element)
        return converted if isinstance(dataset.element_spec, tuple) else converted[0]

    return dataset.map(convert_all)


def is_partial(spec: Any) -> bool:
    """Returns whether all of the shape of a tensor is known but the number of rows.

    Args:
        spec: spec of the tensor, as far as known.
    """
    known = isinstance(spec, tf.TensorSpec) and bool(spec.shape.rank)
    return known and spec.shape[0] is None and spec.shape[1:].is_fully_defined()


def _check_shapes(element_spec: Any, partial_batches: bool) -> None:
    for spec in tf.nest.flatten(element_spec):
        if spec.shape.is_fully_defined() or (partial_batches and is_partial(spec)):
            continue
        instead = f", or let fit() pad partial batches: {_PADDING}"
        raise ValueError(
            f"The dataset has elements of unknown shape, {spec.shape}, but programs on the IPU "
            "need to know all shapes. Batch the dataset with drop_remainder=True, as in "
            "dataset.batch(batch_size, drop_remainder=True), or set shapes with "
            f"tf.ensure_shape in a map{instead if is_partial(spec) else ''}. "
            f"Received: element_spec={element_spec}"
        )
