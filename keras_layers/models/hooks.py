"""The places where Keras itself has to know of IPUs. All of them are here.

While the scope of an `IPUStrategy` with Keras extensions is open

* `keras.Model.__new__` gives models the class that `extension` makes of theirs, so that `fit`,
  `evaluate` and `predict` run programs on the IPU and the methods with options are there;
* what loads and clones models in Keras restores those options (see `saving`).

There is no other way for an ordinary model to become another class. When the last scope is left,
Keras is as it was. Pipeline stages have to see layers being made and called, while a stage is open
only: that is in `pipelining.hooks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tensorflow_ipu import ipu_strategy
from tensorflow_ipu.keras_layers._patching import Patch, Patches
from tensorflow_ipu.keras_layers.models import extension, saving


def extended_models() -> Patches:
    """Returns a context that makes models built inside models for the IPU."""
    return _extended_models


def _patches() -> Iterable[Patch]:
    yield tf.keras.Model, "__new__", staticmethod(_new(tf.keras.Model.__new__))
    yield from saving.patches()


_extended_models = Patches(_patches)


def _new(original: Any) -> Any:
    """Returns the `__new__` of models."""

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        # Another thread may have opened the scope that this function is there for.
        strategy = ipu_strategy.current()
        if strategy is None or not strategy.enable_keras_extensions:
            return original(cls, *args, **kwargs)
        # `Model(inputs, outputs)` makes a functional model by calling that class: as it is, then.
        functional = extension.is_functional(args, kwargs) and cls is tf.keras.Model
        return original(cls if functional else extension.extended(cls), *args, **kwargs)

    return new
