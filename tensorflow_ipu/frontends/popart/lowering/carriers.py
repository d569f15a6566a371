"""What goes between the host and the device in the place of types that feeds lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes


def to_host(array: np.ndarray, type_: datatypes.Type) -> np.ndarray:
    """Returns data of the host as it goes to the device; integers of 64 bits wrap.

    Args:
        array: the data.
        type_: its type.
    """
    if type_.numpy is np.uint32:
        return array.view(np.int32)
    return array.astype(type_.carrier, copy=False)


def from_device(tensor: Any, type_: datatypes.Type) -> Any:
    """Returns what came from the host as a program computes with it.

    Args:
        tensor: the tensor that came.
        type_: its type.
    """
    if type_.tf is tf.uint32:
        return tf.bitcast(tensor, tf.uint32)
    if type_.tf is tf.uint64:
        return tf.cast(tf.bitcast(tensor, tf.uint32), tf.uint64)
    return tensor if tensor.dtype == type_.tf else tf.cast(tensor, type_.tf)


def to_carrier(tensor: Any) -> Any:
    """Returns a tensor of a program as it goes to the host.

    Args:
        tensor: the tensor.
    """
    type_ = datatypes.of_tf(tensor.dtype)
    if type_.tf is tf.uint32:
        return tf.bitcast(tensor, tf.int32)
    if type_.tf is tf.uint64:
        return tf.bitcast(tf.cast(tensor, tf.uint32), tf.int32)
    carrier = tf.as_dtype(type_.carrier)
    return tensor if tensor.dtype == carrier else tf.cast(tensor, carrier)


def from_carrier(array: np.ndarray, type_: datatypes.Type) -> np.ndarray:
    """Returns what came from the device as the host has it.

    Args:
        array: what came.
        type_: its type.
    """
    if type_.numpy in (np.uint32, np.uint64):
        array = array.view(np.uint32)
    return array.astype(type_.numpy, copy=False)
