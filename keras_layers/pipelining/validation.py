"""Validation of stage assignments when they are set and when a model runs."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining import assignment, layer_calls, listing, model_types


def from_user(model: Any, given: Any) -> list[Any]:
    """Returns the assignment that a user sets.

    Args:
        model: a Keras model.
        given: the result of `listing.listed` for it, with stages; for a Sequential model stages
            also.

    Raises:
        RuntimeError: If the layers of a subclass of `Model` are not known yet.
        ValueError: If it is no assignment for this model, or one that no order of stages allows.
    """
    if not isinstance(given, (list, tuple) if listing.is_sequential(model) else list):
        raise ValueError(
            "The pipeline stage assignment needs to be a list, as get_pipeline_stage_assignment() "
            f"returns it. Received: {given!r}"
        )
    expected = listing.listed(model, doing="set")
    if listing.is_sequential(model):
        model_types.check_length(model, given)
        if all(isinstance(stage, int) for stage in given):
            given = model_types.from_stages(model, given, expected)
    check_elements(model, given, expected)
    elements = assignment.copied(given)
    for element in assignment.layer_elements(elements):
        _check_assigned_by_user(model, element)
    if listing.is_sequential(model):
        model_types.check_order(model, elements)
    if elements:
        layer_calls.flattened(model, elements)
    return elements


def check_elements(model: Any, given: Sequence[Any], expected: Sequence[Any]) -> None:
    """Checks that the elements match the layers of a model.

    Args:
        model: the model.
        given: the user's argument.
        expected: elements for all of its layers.

    Raises:
        ValueError: If there are others, or they are in another order.
    """
    if len(given) != len(expected):
        raise ValueError(
            f"The length of the provided `pipeline_stage_assignment` ({len(given)}) does not match "
            f"the number of layers in the graph ({len(expected)}). Pass the list that "
            f"get_pipeline_stage_assignment() of the model {model.name} returns, with other stages."
        )
    if listing.is_sequential(model):
        model_types.check_elements(model, given, expected)
    for index, (ours, theirs) in enumerate(zip(given, expected)):
        _check_element(model, index, ours, theirs)
        if theirs.is_nested_model:
            nested = ours.pipeline_stage_assignments
            check_elements(theirs.nested_model, nested, theirs.pipeline_stage_assignments)


def _check_element(model: Any, index: int, ours: Any, theirs: Any) -> None:
    """Checks a user's element against the expected one."""
    if not isinstance(ours, type(theirs)):
        kind = "nested model" if theirs.is_nested_model else "layer"
        raise ValueError(
            f"The pipeline stage assignment for {kind} {assignment.name_of(theirs)} in "
            f"{model.name} must be an instance of `{type(theirs).__name__}`. Received element "
            f"{index}: {ours!r}"
        )
    if not ours.same_place(theirs):
        raise ValueError(
            "The order of `pipeline_stage_assignment` does not match the post-order generated from "
            f"the graph of the model {model.name}. Expected an element like {theirs!r} at index "
            f"{index}. Received: {ours!r}"
        )


def _check_assigned_by_user(model: Any, element: Any) -> None:
    """Raises if an element of a user's assignment has no valid stage."""
    stage = element.pipeline_stage
    if stage is None and isinstance(element, assignment.LayerCallAssignment):
        raise ValueError(
            f"Layer {element.layer.name} with node_index {element.node_index} has not been "
            "assigned a pipeline stage in `pipeline_stage_assignment`. Set the pipeline_stage of "
            "each element."
        )
    if stage is None:
        raise _unassigned(model, element)
    if isinstance(stage, bool) or not isinstance(stage, numbers.Integral):
        raise ValueError(
            f"The pipeline stage of the layer {element.layer.name} must be an integer >= 0. "
            f"Received: {stage!r}"
        )


def check_assigned(model: Any, elements: Sequence[Any]) -> None:
    """Checks that all layers have a stage.

    Raises:
        ValueError: If one has none.
    """
    for element in assignment.layer_elements(elements):
        if element.pipeline_stage is None:
            raise _unassigned(model, element)


def _unassigned(model: Any, element: Any) -> ValueError:
    name = element.layer.name
    return ValueError(
        "All layers of a pipelined model must have an associated pipeline stage. However, "
        f"{name} has not been assigned to one. The layer {name} of the model {model.name} has not "
        "been assigned a pipeline stage: call it (in a Sequential model or a subclass of Model: "
        "make it) in a PipelineStage scope, or use set_pipeline_stage_assignment()."
    )


def check_complete(model: Any) -> None:
    """Raises if some layers of a model are in stages and others are not.

    Layers of models in it may get their stages later, from the assignment of this one.

    Args:
        model: a functional model that has just been made, or another one that has been built.

    Raises:
        ValueError: If a layer has no stage and another has one.
    """
    elements = [one for one in listing.listed(model) if not one.is_nested_model]
    if any(element.pipeline_stage is not None for element in elements):
        check_assigned(model, elements)


def checked_calls(model: Any) -> layer_calls.ModelCalls:
    """Returns the calls of a pipelined model, to be run.

    Args:
        model: a Keras model whose layers have stages.

    Raises:
        RuntimeError: If a stage has no layer, the class of a functional model has a `call` of its
            own, or as for `from_user`.
        ValueError: If a layer has no stage, or stages are in an order that is not possible.
    """
    elements = listing.listed(model)
    _check_calls(model, elements)
    check_assigned(model, elements)
    assigned = (element.pipeline_stage for element in assignment.layer_elements(elements))
    used = {stage for stage in assigned if stage is not None}
    unused = sorted(set(range(max(used) + 1)) - used)
    if unused:
        raise RuntimeError(
            "All stages in a pipeline must have at lease one layer assigned to them. The highest "
            f"stage with an assignment is stage {max(used)}, however the preceeding stages "
            f"{unused} had no assignments. Number the stages of the model {model.name} 0, 1, 2 and "
            "so on."
        )
    if listing.is_sequential(model):
        model_types.check_order(model, elements)
    return layer_calls.flattened(model, elements)


def _check_calls(model: Any, elements: Sequence[Any]) -> None:
    """Raises if a functional or Sequential model, nested or not, overrides `call`."""
    if isinstance(model, tf.keras.Sequential) or listing.is_functional(model):
        model_types.check_functional_call(model)
    for element in elements:
        if element.is_nested_model:
            _check_calls(element.nested_model, element.pipeline_stage_assignments)
