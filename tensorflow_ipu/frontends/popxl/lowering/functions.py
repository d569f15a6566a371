"""Functions of graphs that are called: each graph is in the program once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import func_graph as func_graph_lib

from tensorflow_ipu.compiler.ir.program import OUTLINED_PREFIX
from tensorflow_ipu.frontends.popxl.graph import Graph, reachable, storage_of
from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering, Surroundings
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Tensor


@dataclasses.dataclass(frozen=True)
class GraphFunction:
    """A graph as a function of TensorFlow.

    Attributes:
        graph: The graph.
        modified: Positions of the inputs that it writes.
        has_effects: Whether it does more than compute.
        function: Takes the inputs; returns the outputs, then the last values of `modified`, then
            a number if there would be no result.
    """

    graph: Graph
    modified: tuple[int, ...]
    has_effects: bool
    function: ConcreteFunction

    def call(self, inputs: Sequence[Any]) -> tuple[list[Any], dict[int, Any], Any]:
        """Calls it in the function that is being built.

        Args:
            inputs: values of the inputs.

        Returns:
            The outputs, the last values of the modified inputs by position, and the operation that
            ends with all effects.
        """
        captured = self.function.graph.external_captures  # remote buffers
        results = list(self.function._call_flat(list(inputs), captured))
        count = len(self.graph.outputs)
        return (
            results[:count],
            dict(zip(self.modified, results[count:])),
            results[0].op,
        )


def make(graph: Graph, program: Surroundings) -> GraphFunction:
    """Makes the function of a graph.

    Args:
        graph: the graph.
        program: the program that it is part of.
    """
    modified = modified_inputs(graph)
    name = re.sub(r"\W+", "_", graph.id).strip("_") or "main"

    def build(*placeholders: Any) -> list[Any]:
        lowering = Lowering(graph, program)
        for tensor, placeholder in zip(graph.inputs, placeholders):
            lowering.values.define(tensor, placeholder)
        lowering.run()
        kept = [*graph.outputs, *(graph.inputs[position] for position in modified)]
        with tf.control_dependencies(lowering.effects):
            results = [_result(lowering, tensor) for tensor in kept]
            return results or [tf.constant(0)]

    specs = [
        tf.TensorSpec(tensor.shape, tf_type(tensor.dtype), re.sub(r"\W", "_", f"in_{tensor.name}"))
        for tensor in graph.inputs
    ]
    traced = func_graph_lib.func_graph_from_py_func(
        name, build, specs, {}, add_control_dependencies=False
    )
    unique = f"{OUTLINED_PREFIX}popxl_{name}_{graph.ir.id}"
    atomic = atomic_function.from_func_graph(unique, traced, {})
    function = ConcreteFunction(atomic, shared_func_graph=True)
    return GraphFunction(graph, modified, has_effects(graph), function)


def _result(lowering: Lowering, tensor: Tensor) -> Any:
    """What a graph hands out for a tensor, where the tensor is at the end."""
    value = lowering.values.read(tensor)
    with lowering.at_end(tensor):
        return tf.identity(value)


def has_effects(graph: Graph) -> bool:
    """Returns whether a graph, or one that it calls, does more than compute."""
    return any(op.kind.effect for called in reachable(graph) for op in called.ops)


def written(graph: Graph) -> list[Tensor]:
    """Returns the tensors with storage of their own that ops of a graph write."""
    roots = [
        root
        for op in graph.ops
        for position in op.writes
        for root in storage_of(op.inputs[position])
    ]
    return list(dict.fromkeys(roots))


def modified_inputs(graph: Graph) -> tuple[int, ...]:
    """Returns the positions of the inputs of a graph that its ops write."""
    found = set(written(graph))
    return tuple(i for i, tensor in enumerate(graph.inputs) if tensor in found)
