"""TensorFlow equivalents of PopXL's data types."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popxl import dtypes


def tf_type(dtype: dtypes.dtype) -> tf.DType:
    """Returns the type that programs hold elements in: 8-bit floats are codes.

    Args:
        dtype: the type.
    """
    return tf.uint8 if dtype.is_float8 else tf.as_dtype(dtype.name)


def plain(array: np.ndarray) -> np.ndarray:
    """Returns an array as TensorFlow takes it: codes for 8-bit floats.

    Args:
        array: the array.
    """
    return array.view("uint8") if array.dtype.names else array
