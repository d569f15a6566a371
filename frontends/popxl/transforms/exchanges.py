"""Transforms that change only when things happen: results are the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tensorflow_ipu.frontends.popxl import context
from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.graph import Graph


@contextlib.contextmanager
def merge_exchange() -> Iterator[None]:
    """Makes the loads and stores created inside one exchange, as far as they are independent.

    Yields:
        Nothing.
    """
    graph = context.get_current_graph()
    count = len(graph.ops)
    yield
    merged = _merged(graph.ops[count:])
    if len(merged) > 1:
        number = graph.ir.next_number("exchange")
        for op in merged:
            op.planned["exchange"] = number


@contextlib.contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """Puts the loads and stores created inside on the I/O tiles, to happen together.

    Args:
        verify_overlap: whether more than one op that cannot happen together with the others is
            refused.

    Yields:
        Nothing.

    Raises:
        RuntimeError: If there is more than one such op.
    """
    graph = context.get_current_graph()
    count = len(graph.ops)
    with context.io_tiles(), merge_exchange(), context.in_sequence(False):
        yield
    if verify_overlap:
        left = _unmerged(graph.ops[count:])
        if len(left) > 1:
            raise RuntimeError(
                "More than one Op remained after the exchanges were merged, so they would not "
                f"overlap: {', '.join(f'{op!r} ({op.site})' for op in left)}."
            )


def _unmerged(ops: list[Op]) -> list[Op]:
    """Returns the ops that are left when loads and stores that do not depend on others are one."""
    merged = _merged(ops)
    others = [op for op in ops if op not in merged and op.kind.type != "Init"]
    return [*merged[:1], *others]


def _merged(ops: list[Op]) -> list[Op]:
    """Returns the loads and stores that take nothing from other ops."""
    made = {tensor for op in ops for tensor in op.outputs if op.kind.type != "Init"}
    return [op for op in ops if op.kind.effect and not made.intersection(op.inputs)]


def decompose_sum(graph: Graph) -> Graph:
    """Returns a graph whose sums of many tensors may become trees of additions.

    Sums are added in one order here, so nothing is changed.

    Args:
        graph: the graph.
    """
    return graph
