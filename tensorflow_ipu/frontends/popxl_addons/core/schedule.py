"""Prints the ops of a graph in the order of their creation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorflow_ipu.frontends import popxl


def schedule(graph: popxl.Graph, names: Mapping[popxl.Tensor, str]) -> str:
    """Returns the ops of a graph, one a line, with shapes and types of what they take and make.

    Args:
        graph: the graph.
        names: what inputs are called.
    """
    numbers: dict[popxl.Tensor, int] = {}

    def number(tensor: popxl.Tensor) -> str:
        return f"%{numbers.setdefault(tensor, len(numbers) + 1)}"

    def typed(tensors: Iterable[popxl.Tensor]) -> str:
        return ", ".join(f"{number(t)} [{t.shape} {t.dtype.name}]" for t in tensors)

    inputs = [
        f"{names[tensor]}={number(tensor)}" if tensor in names else number(tensor)
        for tensor in graph.inputs
    ]
    lines = []
    for op in graph.ops:
        called = "".join(f"({callee.id})" for callee in op.called)
        lines.append(f"    {op!r}{called} ({typed(op.inputs)}) -> ({typed(op.outputs)})")
    outputs = ", ".join(number(tensor) for tensor in graph.outputs)
    head = f"Graph : {graph.name}\n  ({', '.join(inputs)}) -> ({outputs}) {{"
    return "\n".join([head, *lines, "  }"])
