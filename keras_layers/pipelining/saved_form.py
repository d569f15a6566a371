"""Stage assignments as JSON values, for the configuration of saved models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

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


def inputs(saved: Any) -> Any:
    """Returns symbolic inputs like those that were saved.

    Args:
        saved: what `inputs_to_saved` returned.
    """
    if isinstance(saved, (list, tuple)):
        return [inputs(one) for one in saved]
    if _NESTED in saved:
        return {name: inputs(one) for name, one in saved[_NESTED].items()}
    return tf.keras.Input(batch_shape=saved[_SHAPE], dtype=saved[_TYPE])


def stages(saved: Sequence[dict[str, Any]]) -> Iterator[int | None]:
    """Yields the stage of each layer.

    Args:
        saved: what `to_saved` returned.
    """
    for entry in saved:
        if _NESTED in entry:
            yield from stages(entry[_NESTED])
        else:
            yield entry[_STAGE]


def apply(saved: Sequence[dict[str, Any]], elements: Sequence[Any], model: Any) -> None:
    """Gives elements the stages that were saved.

    Args:
        saved: what `to_saved` returned.
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
            apply(entry[_NESTED], element.pipeline_stage_assignments, element.nested_model)
        else:
            element.pipeline_stage = entry[_STAGE]
