"""All patches of Keras that models for the IPU need.

While the scope of an `IPUStrategy` is open

* a model of stock Keras that was made outside is refused when it is compiled or run, or one of the
  methods with options is called;
* preprocessing layers adapt to datasets that are read on the host.

While the scope of one with Keras extensions is open

* `keras.Model.__new__` gives models the class that `extension` makes of theirs, so that `fit`,
  `evaluate` and `predict` run programs on the IPU and the methods with options are there;
* `steps_per_execution` of `compile` may be a tensor;
* losses and metrics get labels of shape [batch] as [batch, 1] also for outputs of rank 3 and more;
* what loads and clones models in Keras restores those options (see `saving`);
* layers know the lines of the user that make and call them (see `layer_lines`).

There is no other way for an ordinary model to become another class. When the last scope is left,
Keras is as it was. Pipeline stages have to see layers being made and called, while a stage is open
only: that is in `pipelining.hooks`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import layer_lines
from tensorflow_ipu.keras_layers.models import checks, extension, saving
from tensorflow_ipu.keras_layers.models.model_options import OptionSetters
from tensorflow_ipu.keras_layers.models.serving import Serving
from tensorflow_ipu.keras_layers.patching import Patch, Patches
from tensorflow_ipu.keras_layers.pipelining.extension import PipelinedModel

base_preprocessing_layer = keras2.module("engine.base_preprocessing_layer")
compile_utils = keras2.module("engine.compile_utils")


def checked_models() -> Patches:
    """Returns a context that tells of models that are used in a scope they were not made in."""
    return _checked_models


def extended_models() -> Patches:
    """Returns a context that makes models built inside models for the IPU."""
    return _extended_models


def _checks() -> Iterable[Patch]:
    for name in _ENTRIES:
        yield tf.keras.Model, name, _made_in_scope(vars(tf.keras.Model)[name])
    for owner in (OptionSetters, PipelinedModel, Serving):
        for name in vars(owner):
            if not name.startswith("_") and not hasattr(tf.keras.Model, name):
                yield tf.keras.Model, name, _Missing(name)
    layer = base_preprocessing_layer.PreprocessingLayer
    yield layer, "adapt", _reading_on_host(vars(layer)["adapt"])


def _extensions() -> Iterable[Patch]:
    yield tf.keras.Model, "__new__", staticmethod(_new(tf.keras.Model.__new__))
    yield tf.keras.Model, "compile", _with_known_steps(vars(tf.keras.Model)["compile"])
    matched = compile_utils.match_dtype_and_rank
    yield compile_utils, "match_dtype_and_rank", _with_labels_as_columns(matched)
    yield from saving.patches()
    yield from layer_lines.patches()


_checked_models = Patches(_checks)
_extended_models = Patches(_extensions)

# What stock Keras calls whenever a model is compiled or run, batch by batch too.
_ENTRIES = (
    "_validate_compile",
    "make_train_function",
    "make_test_function",
    "make_predict_function",
)


def _new(original: Any) -> Any:
    """Returns the `__new__` of models."""

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        # Another thread may have opened the scope that this function is there for.
        strategy = current_scope.current()
        if strategy is None or not strategy.enable_keras_extensions:
            return original(cls, *args, **kwargs)
        # `Model(inputs, outputs)` makes a functional model by calling that class: as it is, then.
        functional = extension.is_functional(args, kwargs) and cls is tf.keras.Model
        return original(cls if functional else extension.extended(cls), *args, **kwargs)

    return new


def _with_known_steps(original: Any) -> Any:
    """Returns `compile` for a `steps_per_execution` that is a tensor, such as a cardinality.

    Keras 2.6 takes it; later ones compare it with a word.
    """

    @functools.wraps(original)
    def compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps = kwargs.get("steps_per_execution")
        if isinstance(steps, tf.Tensor) and hasattr(steps, "numpy"):
            kwargs["steps_per_execution"] = int(steps)
        return original(self, *args, **kwargs)

    return compiled


def _with_labels_as_columns(original: Any) -> Any:
    """Returns `match_dtype_and_rank` for labels of shape [batch] and outputs of rank 3 and more.

    Keras 2.6 adds the dimension to all data; later ones add it for outputs of rank 2 only. Keras's
    losses and metrics then squeeze an output [batch, n, 1] to n classes.
    """

    @functools.wraps(original)
    def matched(y_t: Any, y_p: Any, sw: Any) -> Any:
        if y_t.shape.rank == 1 and (y_p.shape.rank or 0) > 2:
            y_t = tf.expand_dims(y_t, axis=-1)
        return original(y_t, y_p, sw)

    return matched


def _made_in_scope(original: Any) -> Any:
    """Returns a method of models that refuses those that were made outside the open scope."""

    @functools.wraps(original)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, extension.ModelExtension):
            checks.check_stock_model(self)
        return original(self, *args, **kwargs)

    return checked


class _Missing:
    """A method that stock Keras models lack. A method of the model or its class comes first."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        what = "tf.keras.Model" if model is None else f"The model {model.name!r}"
        raise AttributeError(
            f"{what} has no {self._name}(): only models made in the scope of an IPUStrategy with "
            "Keras extensions do. Make it inside `with strategy.scope():`."
        )


def _reading_on_host(original: Any) -> Any:
    """Returns a method that reads datasets on the host."""

    @functools.wraps(original)
    def reading(self: Any, *args: Any, **kwargs: Any) -> Any:
        with current_scope.host_iterators():
            return original(self, *args, **kwargs)

    return reading
