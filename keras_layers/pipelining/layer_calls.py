"""Layer calls of a Keras model in one list, ordered by stage."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.model_state import LayerGraph
from tensorflow_ipu.keras_layers.pipelining import listing


class StageTensor:
    """A tensor that a mini-batch has on its way through the model.

    Attributes:
        stage: The stage that makes it.
    """

    def __init__(self, stage: int) -> None:
        """Makes the value of a stage."""
        self.stage = stage


@dataclasses.dataclass(frozen=True, eq=False)
class LayerCall:
    """The call of a layer, or of a conversion between layers.

    Attributes:
        function: What is called.
        args: Positional arguments, with a `StageTensor` for each tensor of the mini-batch.
        kwargs: Keyword arguments, likewise.
        outputs: The tensors that it returns, flattened.
        stage: The stage that it belongs to.
        training: Value of `training` that a model around the layer was called with; None if that
            of the whole model holds.
        node: What Keras knows of the call in a functional model.
    """

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    outputs: tuple[StageTensor, ...]
    stage: int
    training: Any = None
    node: Any = None

    @property
    def layer(self) -> tf.keras.layers.Layer | None:
        """The layer, if it is the call of one."""
        return self.function if isinstance(self.function, tf.keras.layers.Layer) else None

    def inputs(self) -> list[StageTensor]:
        """Returns the values among the arguments."""
        flat = tf.nest.flatten((self.args, self.kwargs))
        return [value for value in flat if isinstance(value, StageTensor)]


@dataclasses.dataclass(frozen=True, eq=False)
class ModelCalls:
    """All calls of a model.

    Attributes:
        inputs: The tensors of the mini-batch that go into the model, flattened.
        calls: The calls, by stage, each after those that it depends on.
        outputs: A structure of values.
        losses: Scalars that subclasses of `Model` add to the loss in their `call`.
    """

    inputs: tuple[StageTensor, ...]
    calls: tuple[LayerCall, ...]
    outputs: Any
    losses: tuple[StageTensor, ...]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return 1 + max(call.stage for call in self.calls)


def flattened(model: Any, elements: Sequence[Any]) -> ModelCalls:
    """Returns the calls of a model.

    Args:
        model: a Keras model.
        elements: its assignment, with a stage for each layer.

    Raises:
        ValueError: If a layer depends on a later stage.
    """
    inputs = tuple(StageTensor(0) for _ in range(_number_of_inputs(model)))
    builder = _Builder()
    outputs = builder.model(model, elements, inputs, [None] * len(inputs))
    ordered = sorted(builder.calls, key=lambda call: call.stage)
    return ModelCalls(inputs, tuple(ordered), outputs, tuple(builder.losses))


def input_tensors(model: Any, x: Any) -> list[Any]:
    """Flattens the inputs of a model to a list, in the model's order.

    Args:
        model: a Keras model.
        x: the inputs of its call.
    """
    return list(model._flatten_to_reference_inputs(x) if _has_inputs(model) else tf.nest.flatten(x))


def _has_inputs(model: Any) -> bool:
    """Returns whether a model has symbolic inputs to compare tensors with."""
    return listing.is_functional(model) or (
        listing.is_sequential(model) and model._graph_initialized
    )


def _number_of_inputs(model: Any) -> int:
    if listing.is_sequential(model):
        return 1
    return len(tf.nest.flatten(listing.graph(model).inputs))


class _Builder:
    """Builder of the list of calls of a model and of the models nested in it."""

    def __init__(self) -> None:
        self.calls: list[LayerCall] = []
        self.losses: list[StageTensor] = []

    def model(
        self,
        model: Any,
        elements: Sequence[Any],
        inputs: Sequence[Any],
        masks: Sequence[Any],
        training: Any = None,
        node: Any = None,
    ) -> Any:
        """Adds the calls of a model.

        Args:
            model: the model.
            elements: its assignment.
            inputs: its inputs, flattened.
            masks: masks that it is called with, one for each input, or None.
            training: the `training` argument of its call.
            node: its call, in another model.

        Returns:
            What comes out, a structure of values.
        """
        values = [
            self._conformed(model, index, value, mask)
            for index, (value, mask) in enumerate(zip(inputs, masks))
        ]
        if listing.is_sequential(model):
            (value,) = values
            for element in elements:
                (value,) = self._element(element, (value,), {}, 1, training, None)
            return value
        return self._graph(listing.graph(model, node), elements, values, training)

    def _graph(
        self, graph: LayerGraph, elements: Sequence[Any], values: Sequence[Any], training: Any
    ) -> Any:
        """Adds the calls of a model that is not Sequential."""
        known = {id(key): value for key, value in zip(tf.nest.flatten(graph.inputs), values)}
        for element, call in zip(elements, graph.nodes):
            args, kwargs = tf.nest.map_structure(
                lambda one: known.get(id(one), one), (call.call_args, call.call_kwargs)
            )
            outputs = tf.nest.flatten(call.outputs)
            results = self._element(element, args, kwargs, len(outputs), training, call)
            known.update((id(key), value) for key, value in zip(outputs, results))
        self.losses += [known[id(loss)] for loss in graph.losses]
        return tf.nest.map_structure(lambda one: known[id(one)], graph.outputs)

    def _conformed(self, model: Any, index: int, value: Any, mask: Any) -> Any:
        """Adds the conversions of an input that a model makes before its layers."""
        if _has_inputs(model):
            function = functools.partial(_conform, model, model.inputs[index])
        elif listing.is_sequential(model):
            return value
        else:
            function = functools.partial(_autocast, model)
        result = StageTensor(value.stage if isinstance(value, StageTensor) else 0)
        if mask is not None:
            result.stage = max(result.stage, getattr(mask, "stage", 0))
        self.calls.append(LayerCall(function, (value, mask), {}, (result,), result.stage))
        return result

    def _element(
        self, element: Any, args: Any, kwargs: Any, results: int, training: Any, node: Any
    ) -> list[StageTensor]:
        """Adds the call of a layer or model and returns its flattened outputs."""
        if element.is_nested_model:
            return self._nested(element, args, kwargs, training, node)
        stage = element.pipeline_stage
        outputs = tuple(StageTensor(stage) for _ in range(results))
        call = LayerCall(element.layer, args, kwargs, outputs, stage, training, node)
        for value in call.inputs():
            if value.stage > stage:
                raise ValueError(
                    f"Layer {element.layer.name} in pipeline stage {stage} has a dependency from a "
                    f"pipeline stage which has not yet been executed: stage {value.stage}. Put it "
                    "in that stage or a later one."
                )
        self.calls.append(call)
        return list(outputs)

    def _nested(
        self, element: Any, args: Any, kwargs: Any, training: Any, node: Any
    ) -> list[StageTensor]:
        model = element.nested_model
        bound = inspect.signature(model.call).bind(*args, **kwargs).arguments
        given = bound.pop("training", None)
        training = training if given is None else given
        if isinstance(model, tf.keras.Sequential) or listing.is_functional(model):
            inputs = input_tensors(model, bound["inputs"])
            mask = bound.get("mask")
            masks = [None] * len(inputs) if mask is None else input_tensors(model, mask)
        else:
            flat = tf.nest.flatten((args, {n: v for n, v in kwargs.items() if n != "training"}))
            inputs = [value for value in flat if isinstance(value, StageTensor)]
            masks = [None] * len(inputs)
        elements = element.pipeline_stage_assignments
        outputs = self.model(model, elements, inputs, masks, training, node)
        return list(tf.nest.flatten(outputs))


def _conform(model: Any, reference: Any, tensor: Any, mask: Any) -> Any:
    """Returns an input of a functional model with the rank and type that it was built for."""
    if mask is not None:
        tensor._keras_mask = mask
    return model._conform_to_reference_input(tensor, ref_input=reference)


def _autocast(model: Any, tensor: Any, mask: Any) -> Any:
    """Returns an input of a subclass of `Model` in the type that it computes in."""
    del mask
    return model._maybe_cast_inputs(tensor)
