"""Transforms of calls: ops move into graphs of their own, and graphs get more inputs."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.frontends.popxl.ir import Graph, Op, storage_of
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor, constant, graph_input


def outline(
    graph: Graph, ops: Sequence[Op], name: str, outputs: Sequence[Tensor] = ()
) -> tuple[Graph, dict[Tensor, Tensor]]:
    """Moves ops into a new graph, which nothing calls yet.

    What they take of the other ops become inputs, by reference where they write into it. Constants
    are made anew. The tensors that they make are then those of the new graph.

    Args:
        graph: the graph that they are in.
        ops: the last ops of the graph, in their order.
        name: name of the new graph.
        outputs: the results of the ops that become outputs of the new graph. Other ops that take
            them have to be moved, too, after these.

    Returns:
        The new graph, and the tensor of the old graph to pass for each of its inputs.

    Raises:
        ValueError: If other ops, or outputs of the graph, use anything else of what they make.
    """
    moved = set(ops)
    made = {tensor for op in ops for tensor in op.outputs}
    for tensor in made.difference(outputs):
        users = [op for op in tensor.consumers if op not in moved]
        if users or tensor in graph.outputs:
            raise ValueError(f"{tensor!r} is used outside of the ops that are moved: {users}")
    written = {
        root
        for op in ops
        for i in op.writes
        for root in storage_of(op.inputs[i])
        if root not in made
    }
    new = graph.ir.create_empty_graph(name)
    inside: dict[Tensor, Tensor] = {}
    with new:
        for tensor in dict.fromkeys(tensor for op in ops for tensor in op.inputs):
            if tensor not in made:
                by_ref = bool(written.intersection(storage_of(tensor)))
                inside[tensor] = _inner(tensor, by_ref)
    graph.ops[:] = [op for op in graph.ops if op not in moved]
    for op in ops:
        _move(op, new, moved, inside)
    for tensor in outputs:
        new.add_output(tensor)
    inputs = set(new.inputs)
    return new, {inner: outer for outer, inner in inside.items() if inner in inputs}


def outline_whole(graph: Graph, name: str) -> tuple[Graph, dict[Tensor, Tensor]]:
    """Moves all ops of a graph, and its outputs, into a new graph with the same inputs.

    Inputs that are passed by reference, or that ops write into, are passed by reference. The old
    graph is left without ops and outputs; where it is called already, as many have to follow.

    Args:
        graph: the graph.
        name: name of the new graph.

    Returns:
        The new graph, and the tensor of the old graph to pass for each of its inputs.
    """
    ops, outputs = list(graph.ops), graph.take_outputs()
    written = {root for op in ops for i in op.writes for root in storage_of(op.inputs[i])}
    made = {tensor for op in ops for tensor in op.outputs}
    taken = (*graph.inputs, *(tensor for op in ops for tensor in op.inputs), *outputs)
    new = graph.ir.create_empty_graph(name)
    inside: dict[Tensor, Tensor] = {}
    with new:
        for tensor in dict.fromkeys(taken):
            if tensor not in made:
                inside[tensor] = _inner(tensor, tensor.by_ref or tensor in written)
    graph.ops.clear()
    for op in ops:
        _move(op, new, set(ops), inside)
    for tensor in outputs:
        new.add_output(inside.get(tensor, tensor))
    inputs = set(new.inputs)
    return new, {inner: outer for outer, inner in inside.items() if inner in inputs}


def _inner(tensor: Tensor, by_ref: bool) -> Tensor:
    """Returns the new graph's counterpart of a tensor of the old graph."""
    if isinstance(tensor, Constant):
        return constant(tensor.data, tensor.dtype, tensor.name)
    shape, meta_shape = tensor.shape, tensor.meta_shape
    return graph_input(shape, tensor.dtype, tensor.name, by_ref, meta_shape)


def _move(op: Op, graph: Graph, moved: set[Op], inside: dict[Tensor, Tensor]) -> None:
    """Moves an op and its outputs into another graph."""
    for tensor in op.inputs:
        if tensor in inside and op in tensor.consumers:
            tensor.consumers.remove(op)
            inside[tensor].consumers.append(op)
    op.inputs[:] = [inside.get(tensor, tensor) for tensor in op.inputs]
    op.after = [before for before in op.after if before in moved]
    op.graph = graph
    graph.ops.append(op)
    for tensor in op.outputs:
        tensor.go_to(graph)
        if tensor.view is not None:
            tensor.sources = tuple(op.inputs[i] for i in tensor.view.of(len(op.inputs)))


_SITES = ("Call", "Loop", "LoopBody")


def add_input(graph: Graph, passed: Sequence[Tensor], name: str, by_ref: bool = False) -> Tensor:
    """Appends an input to a graph, and an operand to each op that calls it.

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
