"""Reads the layer calls of a model from Keras's symbolic tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

import tensorflow as tf


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
        """Returns what is equal for graphs of the same calls of the same layers."""
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
    """Returns what tells layers apart; those of TensorFlow's functions are new in each trace."""
    symbol = getattr(layer, "symbol", None)
    return id(layer) if symbol is None else (type(layer).__name__, symbol)
