"""The names under which Keras saves the layers, so that it can load them again."""

from __future__ import annotations

from typing import TypeVar

import tensorflow as tf

_Class = TypeVar("_Class", bound=type)


def registered(layer: _Class) -> _Class:
    """Registers a class of this package with Keras; a decorator.

    Saved models then name it `tensorflow_ipu>Dropout`, say, and are loaded without
    `custom_objects`. Under the name alone Keras would take its own layer of that name for it.

    Args:
        layer: the class.

    Returns:
        The class itself.
    """
    result: _Class = tf.keras.utils.register_keras_serializable("tensorflow_ipu")(layer)
    return result
