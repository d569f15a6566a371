"""Stages of Sequential models: one layer after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining import assignment, state


def from_stages(model: Any, stages: Sequence[int], elements: Sequence[Any]) -> list[Any]:
    """Returns the assignment that a list of stages means.

    Args:
        model: A Sequential model.
        stages: The stage of each layer; a model in it has one stage for all of its layers.
        elements: Elements for its layers.

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
            f"The Sequential model {model.name} has {len(model.layers)} layers, so the list of "
            f"pipeline stages must have as many elements. Received: {len(elements)}"
        )


def check_order(model: Any, elements: Sequence[Any]) -> None:
    """Checks that stages follow each other.

    Args:
        model: A Sequential model.
        elements: An assignment in which every layer has a stage.

    Raises:
        ValueError: If the first is not 0, or one is not that of the layer before or the next.
    """
    before = None
    for name, stage in _sequence(elements):
        allowed = (0,) if before is None else (before, before + 1)
        if stage not in allowed:
            raise ValueError(
                f"The layer {name} of the Sequential model {model.name} must be in pipeline stage "
                f"{' or '.join(map(str, allowed))}: the first layer is in stage 0, and each other "
                f"in that of the layer before it or in the following one. Received: {stage}"
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
    """What changing the layers of a Sequential model does to its assignment.

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
        if state.of(self).elements is not None:
            state.of(self).set(None)
            self._drop_ipu_programs()  # type: ignore[attr-defined]
