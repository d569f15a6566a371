"""`Ir`: the graph of a session, to look at."""

from __future__ import annotations

from typing import Any

from onnx import helper

from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.model.imports import Model
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions


class Ir:
    """The graph of a session: the nodes that it runs, with their tensors."""

    def __init__(
        self,
        model: Model,
        options: SessionOptions,
        flow: DataFlow,
        name: str,
        is_training: bool,
    ) -> None:
        """Takes what the session was made of.

        Args:
            model: what it computes.
            options: its options.
            flow: batches and anchors.
            name: what it is called.
            is_training: whether it trains.
        """
        self._model = model
        self._options = options
        self._flow = flow
        self._name = name
        self._is_training = is_training

    def __repr__(self) -> str:
        return f"Ir[{self._name} {len(self._model.nodes)} nodes]"

    def getSessionName(self) -> str:
        """Returns the name of the session."""
        return self._name

    def getSessionOptions(self) -> SessionOptions:
        """Returns a copy of the options of the session."""
        return self._options.copied()

    def getDataFlow(self) -> DataFlow:
        """Returns batches and anchors."""
        return self._flow

    def isTraining(self) -> bool:
        """Returns whether the session trains."""
        return self._is_training

    def to_dict(self) -> dict[str, Any]:
        """Returns the nodes of the main graph, as data for JSON."""
        return {"maingraph": [_node(node) for node in self._model.nodes]}


def _node(node: Any) -> dict[str, Any]:
    attributes = {
        attribute.name: str(helper.get_attribute_value(attribute))
        for attribute in node.attribute
        if not attribute.g.node and not attribute.t.dims
    }
    return {
        "type": node.op_type,
        "domain": node.domain or "ai.onnx",
        "name": node.name,
        "inputs": [{"name": name} for name in node.input],
        "outputs": [{"name": name} for name in node.output],
        "attributes": attributes,
    }
