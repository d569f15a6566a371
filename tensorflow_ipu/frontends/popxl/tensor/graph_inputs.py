"""Inputs and outputs of the current graph."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_ipu.frontends.popxl import context, dtypes
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor.tensors import Tensor
from tensorflow_ipu.frontends.popxl.typing_ import NewAliasAnnotation

#: The annotation of an argument that a graph takes by reference.
TensorByRef = NewAliasAnnotation("popxl.TensorByRef", Tensor)


def graph_input(
    shape: Iterable[int],
    dtype: dtypes.DTypeLike,
    name: str | None = None,
    by_ref: bool = False,
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Adds an input to the current graph.

    Args:
        shape: its shape.
        dtype: type of its elements.
        name: its name.
        by_ref: whether what the graph writes into it changes the tensor that is passed in.
        meta_shape: for a shard, the shape of the whole.

    Returns:
        The input.
    """
    graph = context.get_current_graph()
    spec = TensorSpec(tuple(shape), dtypes.of_device(dtype), tuple(meta_shape or ()))
    tensor: Tensor = Tensor.create(graph, graph.new_id(name), spec)
    tensor.by_ref = by_ref
    return graph.add_input(graph.add_tensor(tensor))


def graph_output(t: Tensor) -> None:
    """Makes a tensor the next output of the current graph.

    Args:
        t: the tensor.

    Raises:
        ValueError: If it is in another graph, or an output already.
    """
    context.get_current_graph().add_output(t)
