"""`autodiff`: makes the gradient graph of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward
from tensorflow_ipu.frontends.popxl.transforms.grad_graph_info import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)

__all__ = ["ExpectedConnection", "ExpectedConnectionType", "GradGraphInfo", "autodiff"]


def autodiff(
    graph: Graph,
    grads_provided: Iterable[Tensor] | None = None,
    grads_required: Iterable[Tensor] | None = None,
    called_graphs_grad_info: Mapping[Graph, GradGraphInfo] | None = None,
    return_all_grad_graphs: bool = False,
) -> GradGraphInfo | dict[Graph, GradGraphInfo]:
    """Makes the gradient graph of a graph: vector-Jacobian products.

    Its inputs are the gradients of tensors, then the forward tensors that it reads. Those that are
    neither inputs nor outputs of the graph become outputs, also where it is called already.

    Args:
        graph: the graph.
        grads_provided: tensors whose gradients are passed in; the outputs by default.
        grads_required: tensors whose gradients are returned; the inputs by default.
        called_graphs_grad_info: gradient graphs of graphs that it calls; the others are made.
        return_all_grad_graphs: whether to return the gradient graphs of these as well.

    Returns:
        The gradient graph, with what its inputs and outputs stand for; or all of them by graph.

    Raises:
        popart.popart_exception: If a tensor is not in the graph, a required gradient does not
            exist, or the graph has an op that cannot be differentiated.
    """
    infos = dict(called_graphs_grad_info or {})
    provided = list(graph.outputs if grads_provided is None else grads_provided)
    required = list(graph.inputs if grads_required is None else grads_required)
    for name, tensors in (("grads_provided", provided), ("grads_required", required)):
        if not tensors:
            raise popart_exception(f"{name} is an empty vector: there is nothing to differentiate.")
        _check(graph, name, tensors)

    def differentiate(called: Graph) -> GradGraphInfo:
        if called not in infos:
            if not called.can_be_differentiated:
                raise popart_exception(
                    f"The graph {called.id} has been marked as unsafe to autodiff: it has a "
                    "gradient of its own. Pass that in called_graphs_grad_info."
                )
            inner = Backward(called, called.outputs, called.inputs, differentiate)
            infos[called] = inner.run(all_required=False)
        return infos[called]

    infos[graph] = Backward(graph, provided, required, differentiate).run()
    return infos if return_all_grad_graphs else infos[graph]


def _check(graph: Graph, name: str, tensors: list[Any]) -> None:
    for tensor in tensors:
        if tensor not in graph:
            raise popart_exception(
                f"{name}: this tensor is not in the forward graph, {graph!r}: {tensor!r}"
            )
