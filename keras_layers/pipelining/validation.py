"""What assignments must be: when they are set, and when a model is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorflow_ipu.keras_layers.pipelining import (
    assignment,
    calls,
    listing,
    sequential,
)


def from_user(model: Any, given: Any) -> list[Any]:
    """Returns the assignment that a user sets.

    Args:
        model: A Keras model.
        given: What `listing.listed` returns for it, with stages; for a Sequential model stages
            also.

    Raises:
        RuntimeError: If the layers of a subclass of `Model` are not known yet, or the class of a
            functional model has a `call` of its own.
        ValueError: If it is no assignment for this model, or one that no order of stages allows.
    """
    if not isinstance(given, (list, tuple) if listing.is_sequential(model) else list):
        raise ValueError(
            "The pipeline stage assignment needs to be a list, as get_pipeline_stage_assignment() "
            f"returns it. Received: {given!r}"
        )
    expected = listing.listed(model)
    if listing.is_sequential(model):
        sequential.check_length(model, given)
        if all(isinstance(stage, int) for stage in given):
            given = sequential.from_stages(model, given, expected)
    check_elements(model, given, expected)
    elements = assignment.copied(given)
    check_assigned(model, elements)
    if listing.is_sequential(model):
        sequential.check_order(model, elements)
    if elements:
        calls.flattened(model, elements)
    return elements


def check_elements(model: Any, given: Sequence[Any], expected: Sequence[Any]) -> None:
    """Checks that elements are those of a model's layers.

    Args:
        model: The model.
        given: What a user passed.
        expected: Elements for all of its layers.

    Raises:
        ValueError: If there are others, or they are in another order.
    """
    if len(given) != len(expected):
        raise ValueError(
            f"The length of the pipeline stage assignment ({len(given)}) does not match the number "
            f"of layers in the graph ({len(expected)}) of the model {model.name}. Pass the list "
            "that get_pipeline_stage_assignment() returns, with other stages."
        )
    for index, (ours, theirs) in enumerate(zip(given, expected)):
        if not isinstance(ours, type(theirs)):
            raise ValueError(
                f"Element {index} of the pipeline stage assignment for the model {model.name} must "
                f"be an instance of {type(theirs).__name__}. Received: {ours!r}"
            )
        if not ours.same_place(theirs):
            raise ValueError(
                f"Element {index} of the pipeline stage assignment does not match the post-order "
                f"generated from the graph of the model {model.name}. Expected an element like "
                f"{theirs!r}. Received: {ours!r}"
            )
        if theirs.is_nested_model:
            nested = ours.pipeline_stage_assignments
            check_elements(theirs.nested_model, nested, theirs.pipeline_stage_assignments)


def check_assigned(model: Any, elements: Sequence[Any]) -> None:
    """Checks that all layers have a stage.

    Raises:
        ValueError: If one has none.
    """
    for element in assignment.layer_elements(elements):
        if element.pipeline_stage is None:
            raise ValueError(
                "All layers of a pipelined model must have an associated pipeline stage, but the "
                f"layer {element.layer.name} of the model {model.name} has not been assigned a "
                "pipeline stage. Call it (in a Sequential model or a subclass of Model: make it) "
                "in a PipelineStage scope, or use set_pipeline_stage_assignment()."
            )


def checked_calls(model: Any) -> calls.ModelCalls:
    """Returns the calls of a pipelined model, to be run.

    Args:
        model: A Keras model whose layers have stages.

    Raises:
        RuntimeError: If a stage has no layer, or as for `from_user`.
        ValueError: If a layer has no stage, or stages are in an order that is not possible.
    """
    elements = listing.listed(model)
    check_assigned(model, elements)
    assigned = (element.pipeline_stage for element in assignment.layer_elements(elements))
    used = {stage for stage in assigned if stage is not None}
    unused = sorted(set(range(max(used) + 1)) - used)
    if unused:
        raise RuntimeError(
            f"All stages in a pipeline must have at least one layer. The model {model.name} has "
            f"layers in the stages {sorted(used)}, and none in {unused}. Number the stages 0, 1, 2 "
            "and so on."
        )
    if listing.is_sequential(model):
        sequential.check_order(model, elements)
    return calls.flattened(model, elements)
