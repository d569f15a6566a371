"""Puts losses that layers add into the stage of the tensors they depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining.layer_calls import ModelCalls
from tensorflow_ipu.versions import keras2

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

base_layer_utils = keras2.module("engine.base_layer_utils")


class LayerLosses:
    """Collects the losses of layers stage by stage, as `model.losses` does in stock Keras.

    Attributes:
        adding: Names of the layers that have added losses of a mini-batch.
    """

    def __init__(self, model: IPUModel, calls: ModelCalls) -> None:
        """Finds the stages of losses that are functions of variables, such as regularizers.

        Args:
            model: the model.
            calls: its calls.
        """
        self.adding: list[str] = []
        self._layers = list(model._flatten_layers())
        home = _homes(calls)
        self._functions: dict[int, list[Callable[[], Any]]] = {}
        for layer in self._layers:
            for function in layer._callable_losses:
                # One of variables that no stage uses is as good in the last stage as in another.
                stages = [home[key] for key in _handles(function) if key in home]
                stage = max(stages, default=calls.stages - 1)
                self._functions.setdefault(stage, []).append(function)

    def clear(self) -> None:
        """Forgets losses of tensors that layers have added."""
        for layer in self._layers:
            layer._clear_losses()

    def take(self, stage: int) -> list[tf.Tensor]:
        """Returns the losses of a stage that has just been built.

        Args:
            stage: the stage.
        """
        placeholder = base_layer_utils.REVIVED_LOSS_PLACEHOLDER
        taken = [
            loss
            for layer in self._layers
            for loss in layer._eager_losses
            if loss is not placeholder
        ]
        self.adding += [layer.name for layer in self._layers if layer._eager_losses]
        self.clear()
        found = [function() for function in self._functions.get(stage, ())]
        return taken + [loss for loss in found if loss is not None]


def _homes(calls: ModelCalls) -> dict[int, int]:
    """Returns the first stage that uses a variable, by `id` of its handle."""
    home: dict[int, int] = {}
    for call in calls.calls:
        weights: Sequence[Any] = [] if call.layer is None else call.layer.weights
        for variable in weights:
            home.setdefault(id(variable.handle), call.stage)
    return home


def _handles(function: Callable[[], Any]) -> list[int]:
    """Returns which variables a function uses, by `id` of their handles."""
    with tf.init_scope():
        graph = tf.__internal__.FuncGraph("loss")
        with graph.as_default():
            function()
    return [id(captured) for captured in graph.external_captures]
