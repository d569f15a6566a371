"""Checks that a pipelined Keras model can run on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining import listing, validation
from tensorflow_ipu.keras_layers.pipelining.model_kinds import subclass

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

# Methods that a pipeline has no place for, by the method that a user calls.
_NOT_CALLED = {"fit": (), "evaluate": ("test_step",), "predict": ("predict_step",)}


def check(model: IPUModel, mode: str) -> None:
    """Refuses a pipelined model that cannot be run.

    Args:
        model: a pipelined model.
        mode: what was called: "fit", "evaluate" or "predict".

    Raises:
        RuntimeError: If its class overrides what stages are made of; if a stage has no layer; or
            if the layers of a subclass of `Model` are not known.
        ValueError: If a layer has no stage; if stages are in an order that is not possible; if
            there is no number of mini-batches for an update.
    """
    for name in _NOT_CALLED[mode]:
        if getattr(type(model), name) is not getattr(tf.keras.Model, name):
            raise RuntimeError(
                f"The function `{name}` for the model {model.name} has been overridden. {mode}() "
                "does not call it for a pipelined model, which runs stage by stage. Remove it, or "
                "create the strategy with IPUStrategy(enable_keras_extensions=False) for plain "
                "Keras."
            )
    validation.checked_calls(model)
    if not (listing.is_functional(model) or listing.is_sequential(model)):
        subclass.check_mode(model, training=mode == "fit")
    options = model._ipu_options
    if mode == "fit" and options.pipelining_gradient_accumulation_steps_per_replica is None:
        raise ValueError(
            f"The pipelined model {model.name} needs the number of mini-batches for an update. Set "
            "it with model.set_pipelining_options(gradient_accumulation_steps_per_replica=...)."
        )
