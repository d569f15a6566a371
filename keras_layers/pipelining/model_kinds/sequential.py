"""Pipeline stages of Sequential models: one layer after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers import model_state
from tensorflow_ipu.keras_layers.pipelining import assignment


def from_stages(model: Any, stages: Sequence[int], elements: Sequence[Any]) -> list[Any]:
    """Returns the assignment that a list of stages means.

    Args:
        model: a Sequential model.
        stages: the stage of each layer; a model in it has one stage for all of its layers.
        elements: elements for its layers.

    Raises:
        ValueError: If there are more or fewer.
    """
    check_length(model, stages)
    result = assignment.copied(elements)
    for element, stage in zip(result, stages):
        for layer in assignment.layer_elements([element]):
            layer.pipeline_stage = stage
    return result


def check_length(model: Any, elements: Sequence[Any]) -> None:
    """Checks the length of an assignment.

    Raises:
        ValueError: If it is not the number of layers.
    """
    if len(elements) != len(model.layers):
        raise ValueError(
            f"The length of the provided `pipeline_stage_assignment` ({len(elements)}) does not "
            f"match the number of layers in the graph ({len(model.layers)}). The list of pipeline "
            f"stages of the Sequential model {model.name} must have as many elements as it has "
            "layers."
        )


def check_elements(model: Any, given: Sequence[Any], expected: Sequence[Any]) -> None:
    """Checks that elements are those of the layers of a Sequential model, one for each.

    Args:
        model: a Sequential model.
        given: what a user passed.
        expected: elements for all of its layers.

    Raises:
        ValueError: If one is of another class, or for another layer.
    """
    for index, (ours, theirs) in enumerate(zip(given, expected)):
        if not isinstance(ours, type(theirs)):
            raise ValueError(
                "All elements of `pipeline_stage_assignment` must be instances of "
                "`SequentialLayerPipelineStageAssignment` for layers or "
                "`SequentialNestedModelPipelineStageAssignment` for nested models. Expected an "
                f"instance of `{type(theirs).__name__}` at index {index}. Received: {ours!r}"
            )
        if not ours.same_place(theirs):
            raise ValueError(
                f"The provided assignment at index {index} `pipeline_stage_assignment` is for "
                f"layer {assignment.name_of(ours)}, but the layer in the Sequential model at index "
                f"{index} is {assignment.name_of(theirs)}. Pass the list that "
                "get_pipeline_stage_assignment() returns, with other stages."
            )


def check_order(model: Any, elements: Sequence[Any]) -> None:
    """Checks that stages follow each other.

    Args:
        model: a Sequential model.
        elements: an assignment in which every layer has a stage.

    Raises:
        ValueError: If the first is not 0, or one is not that of the layer before or the next.
    """
    before = None
    for name, stage in _sequence(elements):
        if before is None and stage != 0:
            raise ValueError(
                "The first layer in a pipelined sequential model needs to be assigned to the 0th "
                f"pipeline stage, however it was assigned to {stage}. Put the layer {name} of the "
                f"model {model.name} in stage 0."
            )
        if before is not None and stage not in (before, before + 1):
            raise ValueError(
                f"Layer {name} has been assigned to pipeline stage {stage}, however the previous "
                f"layer in the Sequential model was assigned to pipeline stage {before}. A layer "
                "in a Sequential model can only be assigned to the same pipeline stage as the "
                f"previous layer or to the next pipeline stage. Put it in stage {before} or "
                f"{before + 1}."
            )
        before = stage


def _sequence(elements: Sequence[Any]) -> Iterator[tuple[str, int | None]]:
    """Yields names of layers and their stages, in execution order."""
    for element in elements:
        layers = list(assignment.layer_elements([element]))
        if not element.is_nested_model or isinstance(element.nested_model, tf.keras.Sequential):
            yield from ((layer.layer.name, layer.pipeline_stage) for layer in layers)
            continue
        # Other models run their layers in the order of their stages.
        for stage in sorted({layer.pipeline_stage or 0 for layer in layers}):
            yield element.nested_model.name, stage


class PipelinedSequential:
    """Drops the assignment of a Sequential model when its layers change.

    Comes before `keras.Sequential` among the base classes.
    """

    def add(self, layer: Any) -> None:
        """Adds a layer, and forgets an assignment that was set; see `tf.keras.Sequential.add`."""
        super().add(layer)  # type: ignore[misc]
        self._forget_assignment()

    def pop(self) -> None:
        """Removes the last layer, and forgets an assignment that was set.

        See `tf.keras.Sequential.pop`.
        """
        super().pop()  # type: ignore[misc]
        self._forget_assignment()

    def _forget_assignment(self) -> None:
        if model_state.of(self).elements is not None:
            model_state.of(self).set(None)
            self._drop_ipu_programs()  # type: ignore[attr-defined]
