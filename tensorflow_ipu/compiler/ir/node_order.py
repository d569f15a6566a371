"""Topological order of the nodes of a function."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from tensorflow_ipu import op_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorflow.core.framework import node_def_pb2


def topological(nodes: Sequence[node_def_pb2.NodeDef]) -> tuple[node_def_pb2.NodeDef, ...]:
    """Orders nodes so that each follows its inputs; ties are settled by original position.

    Args:
        nodes: the nodes of a function; inputs that are not among them are taken as given.

    Returns:
        The same nodes in order.

    Raises:
        ValueError: some nodes wait for each other.
    """
    sources = _sources(nodes)
    waiting = [len(found) for found in sources]
    users: list[list[int]] = [[] for _ in nodes]
    for index, found in enumerate(sources):
        for source in found:
            users[source].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    ordered = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(nodes[index])
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(ordered) != len(nodes):
        stuck = [node.name for node, count in zip(nodes, waiting) if count]
        raise ValueError(
            "Expected a function without cycles, received one in which these ops wait for each "
            f"other: {stuck[:5]}. Only `NextIteration` may close a loop."
        )
    return tuple(ordered)


def _sources(nodes: Sequence[node_def_pb2.NodeDef]) -> list[list[int]]:
    """Returns the positions of each node's predecessors.

    The back edge of a v1 loop is left out: its `Merge` runs for the first time without it.
    """
    position = {
        node.name: index
        for index, node in enumerate(nodes)
        if node.op not in op_names.NEXT_ITERATIONS
    }
    return [
        [
            position[name]
            for name in {i.lstrip("^").split(":")[0] for i in node.input}
            if name in position
        ]
        for node in nodes
    ]
