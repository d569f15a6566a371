"""`LoweredGraph`: a graph inside another one, ready to be put into the function in scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx
import tensorflow as tf
from onnx import numpy_helper

from tensorflow_ipu.frontends.popart.lowering.services import InnerServices
from tensorflow_ipu.frontends.popart.lowering.values import Value, constant

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popart.lowering.graphs import Lowering


class LoweredGraph:
    """A graph inside another one, ready to be put into the function in scope.

    Attributes:
        graph: The graph.
    """

    def __init__(self, graph: onnx.GraphProto, parent: Lowering) -> None:
        """Takes the graph.

        Args:
            graph: the graph.
            parent: the graph around it, whose tensors its nodes can take.
        """
        self.graph = graph
        self._parent = parent

    def __repr__(self) -> str:
        return f"LoweredGraph[{self.graph.name} {len(self.graph.node)} nodes]"

    @property
    def input_names(self) -> list[str]:
        """Names of its inputs."""
        return [value.name for value in self.graph.input]

    def around(self, name: str) -> Any:
        """Returns a tensor of the graph around it.

        Args:
            name: the tensor.
        """
        return self._parent.tensor(name)

    def __call__(self, tensors: Sequence[Any], iteration: Any = 0) -> list[Any]:
        """Puts the graph into the function in scope.

        Args:
            tensors: its inputs.
            iteration: number of the iteration, if it is in a loop: its random numbers depend on it.

        Returns:
            Its outputs, which come after all that it does.
        """
        lowering = self._lowered(tensors, iteration)
        with tf.control_dependencies(lowering.services.effects):
            return [tf.identity(lowering.tensor(value.name)) for value in self.graph.output]

    def finished(self, tensors: Sequence[Any]) -> Any:
        """Puts the graph into the function in scope, for its effects.

        Args:
            tensors: its inputs.

        Returns:
            An operation that comes after all effects.
        """
        return tf.group(*self._lowered(tensors, 0).services.effects)

    def _lowered(self, tensors: Sequence[Any], iteration: Any) -> Lowering:
        lowering = self._parent.child(InnerServices(self._parent.services, iteration))
        for name, tensor in zip(self.input_names, tensors):
            lowering.values[name] = tensor if isinstance(tensor, Value) else Value(tensor)
        for initializer in self.graph.initializer:
            lowering.values[initializer.name] = constant(numpy_helper.to_array(initializer))
        lowering.run(self.graph.node)
        return lowering
