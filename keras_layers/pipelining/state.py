"""What a model knows of its pipeline stages, besides the marks of its layers."""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorflow_ipu.keras_layers.pipelining.layer_graph import LayerGraph

_NAME = "_ipu_pipeline_state"


@dataclasses.dataclass
class PipelineState:
    """What has been said about the stages of a model.

    Attributes:
        elements: The assignment that a user set; None if the marks of the layers hold.
        cleared: Whether the marks of the layers do not hold.
        saved: An assignment from the configuration of a saved model, not yet matched to layers.
        inputs: For a subclass of `Model`, symbolic inputs as it was built with.
        graph: For a subclass of `Model`, the calls that it makes.
        in_modes: For a subclass of `Model`, whether it makes the same calls with `training` set.
        nested_graphs: For a subclass of `Model` in another model, its graph in each call, by node.
        losses: In a stage that computes the loss of the model, what layers have added to it.
        warned: Whether the user knows that moving statistics are not updated.
    """

    elements: list[Any] | None = None
    cleared: bool = False
    saved: list[Any] | None = None
    inputs: Any = None
    graph: LayerGraph | None = None
    in_modes: dict[bool, bool] = dataclasses.field(default_factory=dict)
    nested_graphs: dict[Any, LayerGraph] = dataclasses.field(default_factory=dict)
    losses: list[Any] | None = None
    warned: bool = False

    def set(self, elements: list[Any] | None, cleared: bool = False) -> None:
        """Replaces the assignment.

        Args:
            elements: A new one, or None.
            cleared: Whether the marks of the layers do not hold.
        """
        self.elements = elements
        self.cleared = cleared
        self.saved = None


def of(model: Any) -> PipelineState:
    """Returns the state of a model.

    Args:
        model: Any Keras model.
    """
    # Not an attribute as Keras knows them: it is not part of the model.
    state: PipelineState = vars(model).setdefault(_NAME, PipelineState())
    return state
