"""`add_input`: gives a graph one more input, also where it is called already."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.tensor import Tensor, graph_input

_SITES = ("Call", "Loop", "LoopBody")


def add_input(graph: Graph, passed: Sequence[Tensor], name: str, by_ref: bool = False) -> Tensor:
    """Gives a graph one more input, the last one, and the ops that call it what to pass for that.

    Args:
        graph: the graph, which is called.
        passed: a tensor for each op of `graph.call_sites`, of the graph that the op is in.
        name: name of the input.
        by_ref: whether it is passed by reference.

    Returns:
        The input.

    Raises:
        ValueError: If a tensor is made after the op that would pass it on.
        NotImplementedError: If the graph is called by a conditional.
    """
    for site, tensor in zip(graph.call_sites, passed):
        _check_site(site, tensor)
    with graph:
        like = passed[0]
        new = graph_input(like.shape, like.dtype, name, by_ref, like.meta_shape)
    for site, tensor in zip(graph.call_sites, passed):
        site.inputs.append(tensor)
        if by_ref:
            site.modified.add(len(site.inputs) - 1)
        if site not in tensor.consumers:
            tensor.consumers.append(site)
    return new


def _check_site(site: Op, tensor: Tensor) -> None:
    """Refuses ops that cannot pass on a tensor."""
    if site.kind.type not in _SITES:
        raise NotImplementedError(
            f"{site!r} ({site.site}) cannot pass on {tensor!r}: only calls and loops can. Pass it "
            "to the graph as an input."
        )
    order = site.graph.ops
    if tensor.producer is not None and order.index(tensor.producer) >= order.index(site):
        raise ValueError(
            f"{tensor!r} is made after {site!r} ({site.site}), which would pass it on. Make it "
            "before."
        )
