"""Layer calls of a Keras model, and its pipeline state besides the marks on its layers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import tensorflow as tf

# --- Layer calls ---


@dataclasses.dataclass(frozen=True, eq=False)
class LayerGraph:
    """The calls of layers between inputs and outputs.

    Attributes:
        nodes: The calls in post-order, without those of input layers.
        inputs: A structure of symbolic tensors.
        outputs: A structure of symbolic tensors.
        losses: Symbolic tensors that the model adds to its loss.
    """

    nodes: tuple[Any, ...]
    inputs: Any
    outputs: Any
    losses: tuple[Any, ...] = ()

    def signature(self) -> Any:
        """Returns a value that is equal for graphs of the same calls of the same layers."""
        place = {
            id(tensor): (index, position)
            for index, node in enumerate(self.nodes)
            for position, tensor in enumerate(tf.nest.flatten(node.outputs))
        }
        for index, tensor in enumerate(tf.nest.flatten(self.inputs)):
            place[id(tensor)] = (-1, index)
        calls = [
            (_identity(node.layer), [place.get(id(tensor)) for tensor in node.keras_inputs])
            for node in self.nodes
        ]
        ends = tf.nest.flatten((self.outputs, self.losses))
        return calls, [place.get(id(tensor)) for tensor in ends]


def node_index(node: Any) -> int:
    """Returns which call of its layer a node stands for."""
    return next(index for index, other in enumerate(node.layer.inbound_nodes) if other is node)


def post_order(tensors: Iterable[Any], members: Collection[int] | None = None) -> list[Any]:
    """Returns the calls that tensors come from, each after those it depends on.

    Args:
        tensors: symbolic tensors.
        members: `id` of each node to look at; all if None.
    """
    ordered: list[Any] = []
    seen: set[int] = set()

    def visit(node: Any) -> None:
        if id(node) in seen or (members is not None and id(node) not in members):
            return
        seen.add(id(node))
        if node.is_input:
            return
        for parent in node.parent_nodes:
            visit(parent)
        ordered.append(node)

    for tensor in tensors:
        history = tensor._keras_history
        visit(history.layer.inbound_nodes[history.node_index])
    return ordered


def _identity(layer: Any) -> Any:
    """Returns the identity of a layer. Layers of TensorFlow's functions are new in each trace."""
    symbol = getattr(layer, "symbol", None)
    return id(layer) if symbol is None else (type(layer).__name__, symbol)


# --- State ---

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
    """Makes `model.losses` the given losses, which layers have added elsewhere; a context.

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
