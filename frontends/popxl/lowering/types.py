"""TensorFlow's types for those of PopXL."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popxl import dtypes

# In streams, types that the feeds of the device do not have travel as another one of their size.
_CARRIERS = {tf.uint32: tf.int32}


def tf_type(dtype: dtypes.dtype) -> tf.DType:
    """Returns the type that programs hold elements in: 8-bit floats are codes.

    Args:
        dtype: the type.
    """
    return tf.uint8 if dtype.is_float8 else tf.as_dtype(dtype.name)


def carrier(dtype: dtypes.dtype) -> tf.DType:
    """Returns the type in which a stream carries elements of a type.

    Args:
        dtype: the type.
    """
    held = tf_type(dtype)
    return _CARRIERS.get(held, held)


def plain(array: np.ndarray) -> np.ndarray:
    """Returns an array as TensorFlow takes it: codes for 8-bit floats.

    Args:
        array: the array.
    """
    return array.view("uint8") if array.dtype.names else array
