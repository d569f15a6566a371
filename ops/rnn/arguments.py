"""Checks the arguments that recurrent layers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

FLOATS = (tf.float16, tf.float32)


def float_type(value: Any, argument: str) -> tf.DType:
    """Returns a type that was passed as an argument.

    Raises:
        ValueError: it is neither float16 nor float32.
    """
    try:
        dtype = tf.as_dtype(value)
    except TypeError:
        dtype = None
    if dtype not in FLOATS:
        raise ValueError(f"Only support float16, float32. Received: {argument}={value!r}")
    return dtype


def computed_in(dtype: tf.DType, partials_dtype: tf.DType) -> tf.DType:
    """Returns the type that a layer computes in: partial results are at least as wide as data."""
    return dtype if partials_dtype == tf.float16 else tf.float32


def options(value: Any, argument: str) -> dict[str, Any]:
    """Returns options of the device's library, which change no results.

    Raises:
        TypeError: they are not a dict with strings as keys.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(
            f"{argument} must be a dict of names and values of options. Received: "
            f"{argument}={value!r}"
        )
    return dict(value)


def unit_count(value: Any, argument: str) -> int:
    """Returns a number of units.

    Raises:
        ValueError: it is not a positive int.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{argument} must be a positive int. Received: {argument}={value!r}")
    return int(value)


def state(value: Any, argument: str, batch: Any, units: int, dtype: tf.DType) -> tf.Tensor:
    """Returns an initial state as a tensor.

    Args:
        value: the state.
        argument: its name, for the error.
        batch: static batch size, or None.
        units: number of units.
        dtype: type of the tensor.

    Raises:
        ValueError: it does not have the shape [batch, units].
    """
    if isinstance(value, (list, tuple)) and any(tf.is_tensor(part) for part in value):
        raise ValueError(f"{argument} must be one tensor. Received: {argument}={value!r}")
    tensor = tf.convert_to_tensor(value)
    if not tensor.shape.is_compatible_with([batch, units]):
        raise ValueError(
            f"{argument} must have the shape [batch size, units], [{batch}, {units}]. Received: "
            f"{tensor.shape}"
        )
    return tf.cast(tf.ensure_shape(tensor, [batch, units]), dtype)


def sequence_lengths(value: Any, batch: int | None, steps: int | None) -> tf.Tensor:
    """Returns the lengths of sequences, int32 `[batch]`.

    Args:
        value: the lengths.
        batch: static batch size, or None.
        steps: static number of time steps, or None.

    Raises:
        ValueError: they are not integers.
        tf.errors.InvalidArgumentError: they have another shape, or are known and out of range.
    """
    lengths = tf.convert_to_tensor(value)
    if not lengths.dtype.is_integer:
        raise ValueError(f"seq_len must be integers. Received: seq_len of {lengths.dtype.name}")
    if not lengths.shape.is_compatible_with([batch]):
        _invalid(f"seq_len must have the shape [batch size], [{batch}]. Received: {lengths.shape}")
    known = tf.get_static_value(lengths)
    if known is not None and steps is not None and np.any((known < 0) | (known > steps)):
        _invalid(f"seq_len must be from 0 to the number of time steps, {steps}. Received: {known}")
    return tf.cast(lengths, tf.int32)


def attention_scores(value: Any, inputs: Sequence[int | None], dtype: tf.DType) -> tf.Tensor:
    """Returns attention scores as a tensor with the first two dimensions of the inputs.

    Raises:
        ValueError: they have another shape.
    """
    scores = tf.convert_to_tensor(value)
    expected = list(inputs[:2])
    if not scores.shape.is_compatible_with(expected):
        raise ValueError(
            "attention_score must have the first two dimensions of the inputs, "
            f"{expected}. Received: {scores.shape}"
        )
    return tf.cast(scores, dtype)


def _invalid(message: str) -> None:
    raise tf.errors.InvalidArgumentError(None, None, message)
