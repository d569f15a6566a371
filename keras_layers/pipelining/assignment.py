"""Elements of a pipeline stage assignment: which call of which layer is in which stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """What elements have that stand for one call of a layer.

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
    """Yields the elements of layers, those of nested models too, in their order.

    Args:
        elements: elements of an assignment.
    """
    for element in elements:
        if element.is_nested_model:
            yield from layer_elements(element.pipeline_stage_assignments)
        else:
            yield element
