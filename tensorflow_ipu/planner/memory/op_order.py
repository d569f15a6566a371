"""Orders of a program's ops with the least live memory.

Within each function, ops may change places as long as each comes after those whose results it uses,
and ops with side effects of the same kind keep their order. The ops that a loop, a branch or a call
runs stay together; branches stay apart, and so do the phases of a pipeline.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from tensorflow_ipu.planner.memory.liveness import Order, in_order
from tensorflow_ipu.planner.program.accesses import Accesses
from tensorflow_ipu.planner.program.dependences import DependenceGraph, Region, graph
from tensorflow_ipu.planner.workload import Workload

_Algorithm = Callable[[Region], list[int]]
_BEST = "CHOOSE_BEST"


def orders(workload: Workload, accesses: Accesses, algorithm: str) -> list[Order]:
    """Returns the order of a program's ops by an algorithm.

    Args:
        workload: the program.
        accesses: accesses of ops to buffers.
        algorithm: name of a `SchedulingAlgorithm`.

    Returns:
        One order. For `CHOOSE_BEST`, the distinct orders of all algorithms, the program's own
        first.

    Raises:
        ValueError: there is no such algorithm.
    """
    if algorithm != _BEST and algorithm not in ALGORITHMS:
        raise ValueError(
            f"The ordering must be one of {', '.join([_BEST, *ALGORITHMS])}; received "
            f"{algorithm!r}."
        )
    program = in_order(np.arange(len(workload.ops), dtype=np.int32), accesses.end)
    if not len(accesses.op):
        return [program]
    found = graph(workload, accesses)
    if algorithm != _BEST:
        return [_ordered(found, accesses, ALGORITHMS[algorithm])]
    every = [program, *(_ordered(found, accesses, way) for way in ALGORITHMS.values())]
    return list({each.ops.tobytes(): each for each in every}.values())


def _ordered(found: DependenceGraph, accesses: Accesses, algorithm: _Algorithm) -> Order:
    """Orders the ops of each function."""
    members = {region.parent: algorithm(region) for region in found.regions}
    ops: list[int] = []
    todo = members[-1][::-1]
    while todo:
        op = todo.pop()
        ops.append(op)
        todo.extend(members.get(op, ())[::-1])
    return in_order(np.array(ops, np.int32), accesses.end)


def _post_order(region: Region) -> list[int]:
    """Returns the post-order from the sinks, nearest to the beginning first, predecessors first.

    So the gradient of a weight is made as soon as it can be, not when all gradients are there.
    """
    done = [False] * len(region.ops)
    found: list[int] = []
    depth = _depths(region)
    rank = region.rank
    starts = [
        node for node, after in enumerate(region.after) if all(rank[node] != rank[a] for a in after)
    ]
    for start in sorted(starts, key=lambda i: (depth[i], i)):
        stack = [(start, 0)]
        while stack:
            node, place = stack.pop()
            if done[node]:
                continue
            before = region.before[node]
            while place < len(before) and done[before[place]]:
                place += 1
            if place == len(before):
                done[node] = True
                found.append(node)
            else:
                stack.append((node, place + 1))
                stack.append((before[place], 0))
    return _by_rank(region, found)


def _depths(region: Region) -> list[int]:
    """Returns the length of the longest path from the beginning to each op."""
    found = [0] * len(region.ops)
    for node, before in enumerate(region.before):
        found[node] = max((found[b] + 1 for b in before), default=0)
    return found


def _clustering(region: Region) -> list[int]:
    """Orders users of the newest result first, so that chains of ops stay together."""
    newest = [0]

    def key(node: int) -> int:
        return -max((placed[b] for b in region.before[node]), default=-1)

    placed: dict[int, int] = {}

    def visit(node: int) -> None:
        placed[node] = newest[0]
        newest[0] += 1

    return _list_schedule(region, key, visit)


def _shortest_path(region: Region) -> list[int]:
    """Orders the ops nearest to a sink first."""
    distance = [0] * len(region.ops)
    for node in range(len(region.ops) - 1, -1, -1):
        distance[node] = min((distance[a] + 1 for a in region.after[node]), default=0)
    return _list_schedule(region, lambda node: distance[node])


def _list_schedule(
    region: Region, key: Callable[[int], int], visit: Callable[[int], None] | None = None
) -> list[int]:
    """Returns the order by list scheduling: the ready op with the smallest key comes next."""
    waiting = [len(before) for before in region.before]
    heap = [(region.rank[i], key(i), i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(heap)
    found = []
    while heap:
        _, _, node = heapq.heappop(heap)
        found.append(region.ops[node])
        if visit is not None:
            visit(node)
        for after in region.after[node]:
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(heap, (region.rank[after], key(after), after))
    return found


def _look_ahead(region: Region) -> list[int]:
    """Orders the ops first that free most bytes, net of their results."""
    return _Greedy(region).run()


class _Greedy:
    """Greedy order of ops by the bytes that each adds to the live memory."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._users = [len(users) for users in region.users]
        self._waiting = [len(before) for before in region.before]
        self._ready = [not count for count in self._waiting]
        self._heap = [
            (region.rank[i], self._added(i), i) for i, ready in enumerate(self._ready) if ready
        ]
        heapq.heapify(self._heap)

    def run(self) -> list[int]:
        """Returns the ops in order."""
        region, found = self._region, []
        done = [False] * len(region.ops)
        while self._heap:
            _, added, node = heapq.heappop(self._heap)
            # An op that became better since is in the heap twice.
            if done[node] or added != self._added(node):
                continue
            done[node] = True
            found.append(region.ops[node])
            for after in region.after[node]:
                self._waiting[after] -= 1
                if not self._waiting[after]:
                    self._ready[after] = True
                    self._push(after)
            self._release(node, done)
        return found

    def _release(self, node: int, done: list[bool]) -> None:
        """Counts off an op's operands; updates the keys of a buffer's last remaining user."""
        region = self._region
        for buffer in region.reads[node]:
            self._users[buffer] -= 1
            if self._users[buffer] == 1:
                for user in region.users[buffer]:
                    if not done[user] and self._ready[user]:
                        self._push(user)

    def _push(self, node: int) -> None:
        heapq.heappush(self._heap, (self._region.rank[node], self._added(node), node))

    def _added(self, node: int) -> int:
        """Returns the bytes of an op's results minus the operands that it is the last to use."""
        region = self._region
        freed = sum(region.sizes[b] for b in region.reads[node] if self._users[b] == 1)
        return region.made[node] - freed


def _by_rank(region: Region, nodes: list[int]) -> list[int]:
    """Separates the phases of a pipeline in an order that is right otherwise."""
    if not any(region.rank):
        return [region.ops[node] for node in nodes]
    place = {node: position for position, node in enumerate(nodes)}
    return _list_schedule(region, place.__getitem__)


ALGORITHMS: dict[str, _Algorithm] = {
    "CLUSTERING": _clustering,
    "POST_ORDER": _post_order,
    "LOOK_AHEAD": _look_ahead,
    "SHORTEST_PATH": _shortest_path,
}
