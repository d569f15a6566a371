"""Checks the arguments that the CTC ops share."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import tensor_util

_FLOATS = (tf.float16, tf.float32)


def data_tensor(value: Any, argument: str) -> tf.Tensor:
    """Returns the data as a tensor.

    Args:
        value: float16 or float32 `[max_time, batch_size, num_classes]`.
        argument: its name, for errors.

    Raises:
        TypeError: it has another type.
        ValueError: it has another rank.
    """
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype not in _FLOATS:
        raise TypeError(
            f"{argument} must be of the type float16 or float32. Received: {tensor.dtype.name}. "
            "Cast it with tf.cast."
        )
    if tensor.shape.rank not in (None, 3):
        raise ValueError(
            f"{argument} must be of the shape [max_time, batch_size, num_classes]. "
            f"Received: {tensor.shape}"
        )
    return tensor


def loss_dtype(out_dtype: Any, data: tf.Tensor, argument: str) -> tf.DType:
    """Returns the type of a loss.

    Args:
        out_dtype: what the user asked for; None for that of the data.
        data: the data.
        argument: name of the data, for the error.

    Raises:
        ValueError: it is neither float16 nor float32, or float16 for float32 data.
    """
    if out_dtype is None:
        return data.dtype
    dtype = tf.as_dtype(out_dtype)
    if dtype not in _FLOATS:
        raise ValueError(f"out_dtype must be float16 or float32. Received: out_dtype={dtype.name}")
    if dtype == tf.float16 and data.dtype == tf.float32:
        raise ValueError(
            f"out_dtype cannot be float16 when dtype of {argument} is float32. Use float32, or "
            f"cast {argument} with tf.cast."
        )
    return dtype


def blank(blank_index: Any, data: tf.Tensor, last: bool = False) -> int:
    """Returns the class of the blank label.

    Args:
        blank_index: what the user gave.
        data: the data.
        last: whether -1 stands for the last class.

    Raises:
        TypeError: it is not an int.
        ValueError: there is no such class, or -1 is given and the number of classes is unknown.
    """
    index = integer(blank_index, "blank_index")
    classes = data.shape[2] if data.shape.rank is not None else None
    lowest = -1 if last else 0
    if index < lowest or (classes is not None and index >= classes):
        raise ValueError(
            f"blank_index must be in the range [{lowest}, "
            f"{'the number of classes' if classes is None else classes}). "
            f"Received: blank_index={blank_index!r}"
        )
    if index >= 0:
        return index
    if classes is None:
        raise ValueError(
            "blank_index=-1 means the last class, but the number of classes is not known in "
            f"advance: the data have the shape {data.shape}. Give the index itself."
        )
    return int(classes) - 1


def integer(value: Any, argument: str) -> int:
    """Returns an argument that is a Python or NumPy integer.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{argument} must be an int. Received: {argument}={value!r}")
    return int(value)


def lengths(value: Any, argument: str, data: tf.Tensor, limit: int | None) -> tf.Tensor:
    """Returns lengths as a tensor.

    Args:
        value: int32 `[batch_size]`.
        argument: its name, for errors.
        data: the data, which have the same batch size.
        limit: the greatest length; None when not known.

    Raises:
        TypeError: it has another type.
        ValueError: it has another shape, or is constant and out of range.
    """
    tensor = int32_tensor(value, argument)
    if not tensor.shape.is_compatible_with([_batch(data)]):
        raise ValueError(
            f"{argument} must be of the shape [batch_size], here [{_batch(data)}]. "
            f"Received: {tensor.shape}"
        )
    constant = tensor_util.constant_value(tensor)
    if constant is None:
        return tensor
    outside = constant[(constant < 0) | (constant > (np.inf if limit is None else limit))]
    if outside.size:
        raise ValueError(
            f"{argument} must be in the range [0, {'inf' if limit is None else limit}]. "
            f"Received: {outside[0]}"
        )
    return tensor


def label_tensor(
    value: Any, label_length: tf.Tensor, data: tf.Tensor, blank_index: int
) -> tf.Tensor:
    """Returns labels as a tensor.

    Args:
        value: int32 `[batch_size, max_label_length]`.
        label_length: how many of each entry count.
        data: the data.
        blank_index: the class that is no label.

    Raises:
        TypeError: it has another type.
        ValueError: it has another shape, or is constant and a label is no class or the blank.
    """
    tensor = int32_tensor(value, "labels")
    if not tensor.shape.is_compatible_with([_batch(data), None]):
        raise ValueError(
            f"labels must be of the shape [batch_size, max_label_length], here [{_batch(data)}, "
            f"max_label_length]. Received: {tensor.shape}"
        )
    constant, counts = (tensor_util.constant_value(t) for t in (tensor, label_length))
    if constant is None or counts is None or data.shape.rank is None:
        return tensor
    used = constant[np.arange(constant.shape[1]) < counts[:, np.newaxis]]
    classes = np.inf if data.shape[2] is None else data.shape[2]
    wrong = used[(used < 0) | (used >= classes) | (used == blank_index)]
    if wrong.size:
        raise ValueError(
            f"labels must be in the range [0, {classes}) and not the blank_index {blank_index}. "
            f"Received: {wrong[0]}"
        )
    return tensor


def int32_tensor(value: Any, argument: str) -> tf.Tensor:
    """Returns a value as a tensor of int32; lists and arrays of integers are converted.

    Raises:
        TypeError: it has another type.
    """
    tensor = value if tf.is_tensor(value) else tf.convert_to_tensor(_narrowed(value))
    if tensor.dtype != tf.int32:
        raise TypeError(
            f"{argument} must be of the type int32. Received: {tensor.dtype.name}. Cast it with "
            "tf.cast."
        )
    return tf.convert_to_tensor(tensor)


def _narrowed(value: Any) -> Any:
    """Returns NumPy's default integers as int32, which Python's are in TensorFlow anyway."""
    array = np.asarray(value)
    return array.astype(np.int32) if array.dtype == np.int64 else value


def _batch(data: tf.Tensor) -> int | None:
    return data.shape[1] if data.shape.rank is not None else None
