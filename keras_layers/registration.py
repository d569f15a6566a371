"""Registration of the layers with Keras under the names that saved models use."""

from __future__ import annotations

from typing import Any, TypeVar

import tensorflow as tf

from tensorflow_ipu.util.short_repr import shows

_Class = TypeVar("_Class", bound=type)

_shown = shows(lambda self: {"name": self.name, "dtype": getattr(self, "dtype", None)})


def registered(layer: _Class) -> _Class:
    """Registers a class of this package with Keras, and shows its objects; a decorator.

    Saved models then name it `tensorflow_ipu>Dropout`, say, and are loaded without
    `custom_objects`. Under the name alone Keras would take its own layer of that name for it.

    Args:
        layer: the class.

    Returns:
        The class itself.
    """
    shown_by_address: Any = object.__repr__
    if layer.__repr__ is shown_by_address:
        layer.__repr__ = _shown  # type: ignore[method-assign, assignment]
    result: _Class = tf.keras.utils.register_keras_serializable("tensorflow_ipu")(layer)
    return result
