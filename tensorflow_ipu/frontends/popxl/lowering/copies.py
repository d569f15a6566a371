"""Warns of writes into inputs of graphs that change a copy only, which nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.graph import Graph, storage_of
from tensorflow_ipu.frontends.popxl.tensor import Tensor
from tensorflow_ipu.util.notices import warn_once


def warn(graph: Graph) -> None:
    """Warns if a graph writes into a copy of its input, and nothing reads the result.

    Args:
        graph: a graph that is called.
    """
    inputs = {tensor: position for position, tensor in enumerate(graph.inputs)}
    written: dict[Tensor, Op] = {}
    for op in graph.ops:
        for root in {root for tensor in op.inputs for root in storage_of(tensor)}:
            # To make a view reads nothing; a write reads what an earlier one left.
            if not op.is_view or op.writes:
                written.pop(root, None)
        for i in op.writes:
            written.update(dict.fromkeys(storage_of(op.inputs[i]), op))
    returned = {root for tensor in graph.outputs for root in storage_of(tensor)}
    for tensor, op in written.items():
        position = inputs.get(tensor)
        if position is None or tensor.by_ref or tensor in returned:
            continue
        if not any(position in caller.modified for caller in _callers(graph)):
            warn_once(
                "%r (%s) writes into the input %s of the graph %s, which is a copy of what callers "
                "pass in, and nothing reads the copy. To change what they pass in, annotate the "
                "argument with popxl.TensorByRef, or call set_parent_input_modified of the call's "
                "info.",
                op,
                op.site,
                tensor.name,
                graph.id,
                key="popxl writes into a copy",
            )


def _callers(graph: Graph) -> Iterator[Op]:
    """Yields the ops that run a graph; for one that is repeated the loop, too."""
    for site in graph.call_sites:
        yield site
        if site.kind.is_loop:
            yield from site.graph.call_sites
