"""Shapes and sizes that users give as tensors or as TensorFlow 1 dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import tensor_util

from tensorflow_ipu.import_hook.versions import keras2

keras_tensor = keras2.module("engine.keras_tensor")


def static_size(size: Any) -> Any:
    """Returns a size as a number, or None.

    Args:
        size: a number, a `Dimension`, or an integer scalar; None for one that is not known. What is
            none of these comes back as it is.
    """
    if isinstance(size, tf.compat.v1.Dimension):
        return size.value
    if isinstance(size, (tf.Tensor, np.ndarray, np.integer)):
        value = tensor_util.constant_value(size) if isinstance(size, tf.Tensor) else size
        if value is not None and np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iu":
            return int(value)
    return size


def static_shape(shape: Any) -> Any:
    """Returns a shape, or a list or dict of shapes, with numbers for sizes.

    Args:
        shape: what `build` of a Keras model takes, with sizes as `static_size` takes them.
    """
    if isinstance(shape, (tf.TensorShape, keras_tensor.KerasTensor)):
        return shape
    if isinstance(shape, dict):
        return {name: static_shape(value) for name, value in shape.items()}
    if isinstance(shape, (list, tuple)):
        return type(shape)(static_shape(value) for value in shape)
    return static_size(shape)
