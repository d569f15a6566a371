"""Checks of the arguments that collectives share."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
import tensorflow as tf

TensorLike = Union[tf.Tensor, tf.IndexedSlices, Any]

_NUMBERS = (
    tf.float16,
    tf.bfloat16,
    tf.float32,
    tf.int8,
    tf.uint8,
    tf.int32,
    tf.uint32,
    tf.int64,
)


def number_tensor(value: TensorLike, operation: str) -> tf.Tensor:
    """Returns a value as a tensor of numbers of the device.

    Args:
        value: the value; `tf.IndexedSlices` are made dense.
        operation: the operation to name in errors.

    Raises:
        TypeError: it has another type.
    """
    return _tensor_of(value, operation, _NUMBERS)


def any_tensor(value: TensorLike, operation: str) -> tf.Tensor:
    """Returns a value as a tensor of numbers or booleans of the device; see `number_tensor`."""
    return _tensor_of(value, operation, (*_NUMBERS, tf.bool))


def boolean_tensor(value: TensorLike, operation: str) -> tf.Tensor:
    """Returns a value as a tensor of booleans; see `number_tensor`."""
    return _tensor_of(value, operation, (tf.bool,))


def _tensor_of(value: TensorLike, operation: str, dtypes: tuple[tf.DType, ...]) -> tf.Tensor:
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype not in dtypes:
        names = ", ".join(dtype.name for dtype in dtypes)
        raise TypeError(
            f"{operation} takes tensors of the types {names}. Received: {tensor.dtype.name}. Cast "
            "the tensor with tf.cast."
        )
    return tensor


def replica_count(value: Any, argument: str) -> int:
    """Returns a number of replicas that was passed as an argument.

    Args:
        value: the number.
        argument: its name, for the error.

    Raises:
        TypeError: it is not an int.
        ValueError: it is less than 1.
    """
    return _count(value, argument, least=1)


def _count(value: Any, argument: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{argument} must be an int. Received: {argument}={value!r}")
    if value < least:
        raise ValueError(f"{argument} must be at least {least}. Received: {argument}={value!r}")
    return int(value)


def group_size(value: Any, argument: str) -> int:
    """Returns a group size as the ops take it: None and 0 stand for all replicas.

    Args:
        value: the size.
        argument: its name, for the error.

    Raises:
        TypeError: it is not an int.
        ValueError: it is negative.
    """
    return 0 if value is None else _count(value, argument, least=0)
