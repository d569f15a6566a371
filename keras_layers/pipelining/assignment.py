"""Pipeline stage assignments: the stage of each layer call, and the form in saved models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.util.short_repr import shows


class PipelineStageAssignment:
    """An element of an assignment: a layer of a model, or a model in it."""

    # Attributes that say which element it is, and then what is assigned to it.
    _FIELDS: tuple[str, ...] = ()
    _ASSIGNED = ""

    @property
    def is_nested_model(self) -> bool:
        """Whether this is a model in a model, with assignments of its own."""
        return isinstance(self, NestedAssignment)

    def same_place(self, other: Any) -> bool:
        """Returns whether this and another element are for the same layer, in the same call.

        Args:
            other: anything.
        """
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name) for name in self._FIELDS
        )

    def __eq__(self, other: object) -> bool:
        return self.same_place(other) and getattr(self, self._ASSIGNED) == getattr(
            other, self._ASSIGNED
        )

    __hash__ = None  # type: ignore[assignment]

    __repr__ = shows(
        lambda self: {
            name: getattr(value, "name", value)
            for name in (*self._FIELDS, self._ASSIGNED)
            for value in (getattr(self, name),)
        }
    )


class LayerAssignment(PipelineStageAssignment):
    """The stage of a layer.

    Attributes:
        layer: The layer.
        pipeline_stage: The stage; None if there is none. It is checked where a model gets it.
    """

    _FIELDS: tuple[str, ...] = ("layer",)
    _ASSIGNED = "pipeline_stage"

    def __init__(self, layer: tf.keras.layers.Layer, pipeline_stage: int | None = None) -> None:
        """Makes one.

        Args:
            layer: the layer.
            pipeline_stage: its stage; None if it has none.
        """
        self.layer = layer
        self.pipeline_stage = pipeline_stage

    def copy(self) -> LayerAssignment:
        """Returns another for the same layer."""
        return type(self)(self.layer, self.pipeline_stage)


class NestedAssignment(PipelineStageAssignment):
    """The stages of the layers of a model in a model.

    Attributes:
        nested_model: The model.
        pipeline_stage_assignments: The assignment of its layers.
    """

    _FIELDS: tuple[str, ...] = ("nested_model",)
    _ASSIGNED = "pipeline_stage_assignments"

    def __init__(
        self,
        nested_model: tf.keras.Model,
        pipeline_stage_assignments: Iterable[PipelineStageAssignment],
    ) -> None:
        """Makes one.

        Args:
            nested_model: the model.
            pipeline_stage_assignments: the assignment of its layers.
        """
        self.nested_model = nested_model
        self.pipeline_stage_assignments = list(pipeline_stage_assignments)

    def copy(self) -> NestedAssignment:
        """Returns another for the same model, with copies of its elements."""
        return type(self)(self.nested_model, copied(self.pipeline_stage_assignments))


class _OfCall:
    """Base of the elements that stand for one call of a layer.

    Attributes:
        node_index: Which call of the layer this is: an index of `layer.inbound_nodes`.
    """

    node_index: int

    def _called(self) -> Any:
        raise NotImplementedError

    @property
    def inbound_layers(self) -> list[tf.keras.layers.Layer]:
        """The layers whose outputs go into this call."""
        node = self._called().inbound_nodes[self.node_index]
        return [tensor._keras_history.layer for tensor in node.keras_inputs]


class LayerCallAssignment(LayerAssignment, _OfCall):
    """The stage of one call of a layer."""

    _FIELDS = ("layer", "node_index")

    def __init__(
        self, layer: tf.keras.layers.Layer, node_index: int, pipeline_stage: int | None = None
    ) -> None:
        """Makes one.

        Args:
            layer: the layer.
            node_index: which of its calls.
            pipeline_stage: the stage of that call; None if it has none.
        """
        super().__init__(layer, pipeline_stage)
        self.node_index = node_index

    def copy(self) -> LayerCallAssignment:
        """Returns another for the same call."""
        return type(self)(self.layer, self.node_index, self.pipeline_stage)

    def _called(self) -> Any:
        return self.layer


class NestedCallAssignment(NestedAssignment, _OfCall):
    """The stages of the layers of a model in a model, in one call of that."""

    _FIELDS = ("nested_model", "node_index")

    def __init__(
        self,
        nested_model: tf.keras.Model,
        node_index: int,
        pipeline_stage_assignments: Iterable[PipelineStageAssignment],
    ) -> None:
        """Makes one.

        Args:
            nested_model: the model.
            node_index: which of its calls.
            pipeline_stage_assignments: the assignment of its layers in that call.
        """
        super().__init__(nested_model, pipeline_stage_assignments)
        self.node_index = node_index

    def copy(self) -> NestedCallAssignment:
        """Returns another for the same call, with copies of its elements."""
        elements = copied(self.pipeline_stage_assignments)
        return type(self)(self.nested_model, self.node_index, elements)

    def _called(self) -> Any:
        return self.nested_model


class FunctionalLayerPipelineStageAssignment(LayerCallAssignment):
    """The stage of one call of a layer in a functional model."""


class FunctionalNestedModelPipelineStageAssignment(NestedCallAssignment):
    """The stages in one call of a model in a functional model."""


class ModelLayerPipelineStageAssignment(LayerCallAssignment):
    """The stage of one call of a layer in a subclass of `Model`."""


class NestedModelPipelineStageAssignment(NestedCallAssignment):
    """The stages in one call of a model in a subclass of `Model`."""


class SequentialLayerPipelineStageAssignment(LayerAssignment):
    """The stage of a layer of a Sequential model."""


class SequentialNestedModelPipelineStageAssignment(NestedAssignment):
    """The stages of a model in a Sequential model."""


def name_of(element: Any) -> str:
    """Returns the name of the layer or model that an element is for.

    Args:
        element: an element of an assignment.
    """
    return str((element.nested_model if element.is_nested_model else element.layer).name)


def copied(elements: Iterable[Any]) -> list[Any]:
    """Returns copies of elements: changing them changes no others.

    Args:
        elements: elements of an assignment.
    """
    return [element.copy() for element in elements]


def layer_elements(elements: Iterable[Any]) -> Iterator[LayerAssignment]:
    """Yields the elements of layers in order, elements of nested models included.

    Args:
        elements: elements of an assignment.
    """
    for element in elements:
        if element.is_nested_model:
            yield from layer_elements(element.pipeline_stage_assignments)
        else:
            yield element


# --- Saved form ---

_NESTED = "layers"
_STAGE = "pipeline_stage"
_SHAPE, _TYPE = "shape", "dtype"


def to_saved(elements: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns an assignment as a list of dicts.

    Layers are known by their class and place: the names of those that a subclass of `Model` makes
    can be others next time.

    Args:
        elements: an assignment.
    """
    return [
        {
            "class_name": type(element.nested_model).__name__,
            _NESTED: to_saved(element.pipeline_stage_assignments),
        }
        if element.is_nested_model
        else {"class_name": type(element.layer).__name__, _STAGE: element.pipeline_stage}
        for element in elements
    ]


def inputs_to_saved(inputs: Any) -> Any:
    """Returns symbolic inputs of a model as values that JSON has; None if it cannot have them.

    Args:
        inputs: a symbolic tensor, or a structure of them.
    """
    if isinstance(inputs, (list, tuple)):
        parts = [inputs_to_saved(one) for one in inputs]
        return None if None in parts else parts
    if isinstance(inputs, dict):
        named = {name: inputs_to_saved(one) for name, one in inputs.items()}
        lost = None in named.values() or not all(isinstance(name, str) for name in named)
        return None if lost else {_NESTED: named}
    return {_SHAPE: inputs.shape.as_list(), _TYPE: inputs.dtype.name}


def saved_inputs(saved: Any) -> Any:
    """Returns symbolic inputs like those that were saved.

    Args:
        saved: the result of `inputs_to_saved`.
    """
    if isinstance(saved, (list, tuple)):
        return [saved_inputs(one) for one in saved]
    if _NESTED in saved:
        return {name: saved_inputs(one) for name, one in saved[_NESTED].items()}
    return tf.keras.Input(batch_shape=saved[_SHAPE], dtype=saved[_TYPE])


def saved_stages(saved: Sequence[dict[str, Any]]) -> Iterator[int | None]:
    """Yields the stage of each layer.

    Args:
        saved: the result of `to_saved`.
    """
    for entry in saved:
        if _NESTED in entry:
            yield from saved_stages(entry[_NESTED])
        else:
            yield entry[_STAGE]


def apply_saved(saved: Sequence[dict[str, Any]], elements: Sequence[Any], model: Any) -> None:
    """Sets the saved stages on elements.

    Args:
        saved: the result of `to_saved`.
        elements: elements for the layers of the model, changed in place.
        model: the model.

    Raises:
        ValueError: If the layers are not those whose stages were saved.
    """
    expected = [entry["class_name"] for entry in saved]
    found = [
        type(element.nested_model if element.is_nested_model else element.layer).__name__
        for element in elements
    ]
    if expected != found:
        raise ValueError(
            f"The pipeline stages in the configuration of the model {model.name} do not fit its "
            f"layers. Expected calls of {expected}, found {found}. Assign the stages again with "
            "set_pipeline_stage_assignment()."
        )
    for entry, element in zip(saved, elements):
        if element.is_nested_model:
            apply_saved(entry[_NESTED], element.pipeline_stage_assignments, element.nested_model)
        else:
            element.pipeline_stage = entry[_STAGE]
