"""Pipeline state of a Keras model, besides the marks on its layers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from tensorflow_ipu.keras_layers.layer_graph import LayerGraph

_NAME = "_ipu_pipeline_state"


@dataclasses.dataclass
class PipelineState:
    """The stage assignment of a model, and where it came from.

    Attributes:
        elements: The assignment that a user set; None if the marks of the layers hold.
        cleared: Whether the marks of the layers do not hold.
        saved: An assignment from the configuration of a saved model, not yet matched to layers.
        saved_inputs: Likewise what a subclass of `Model` was built with: see `saved_form`.
        inputs: For a subclass of `Model`, symbolic inputs as it was built with.
        graph: For a subclass of `Model`, the calls that it makes.
        in_modes: For a subclass of `Model`, whether it makes the same calls with `training` set.
        nested_graphs: For a subclass of `Model` in another model, its graph in each call, by node.
        losses: Where the loss of the model is computed, what layers have added to it elsewhere.
        warned: Whether the user knows that moving statistics are not updated.
        told_of_padding: Whether the user knows in which layers padding has an effect.
    """

    elements: list[Any] | None = None
    cleared: bool = False
    saved: list[Any] | None = None
    saved_inputs: Any = None
    inputs: Any = None
    graph: LayerGraph | None = None
    in_modes: dict[bool, bool] = dataclasses.field(default_factory=dict)
    nested_graphs: dict[Any, LayerGraph] = dataclasses.field(default_factory=dict)
    losses: list[Any] | None = None
    warned: bool = False
    told_of_padding: bool = False

    def set(self, elements: list[Any] | None, cleared: bool = False) -> None:
        """Replaces the assignment.

        Args:
            elements: a new one, or None.
            cleared: whether the marks of the layers do not hold.
        """
        self.elements = elements
        self.cleared = cleared
        self.saved = None


def of(model: Any) -> PipelineState:
    """Returns the state of a model.

    Args:
        model: any Keras model.
    """
    # Not an attribute as Keras knows them: it is not part of the model.
    state: PipelineState = vars(model).setdefault(_NAME, PipelineState())
    return state


@contextlib.contextmanager
def layer_losses(model: Any, losses: list[Any]) -> Iterator[None]:
    """Lets `model.losses` be what layers have added elsewhere.

    Args:
        model: a model for the IPU.
        losses: tensors of the graph that is being built, or of those around it.

    Yields:
        Nothing.
    """
    known = of(model)
    before, known.losses = known.losses, losses
    try:
        yield
    finally:
        known.losses = before
