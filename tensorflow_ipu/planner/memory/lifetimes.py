"""Order of a program's ops with the least live memory, and the live ranges of its buffers.

Within each function, ops may change places as long as each comes after those whose results it uses,
and ops with side effects of the same kind keep their order. The ops that a loop, a branch or a call
runs stay together; branches stay apart, and so do the phases of a pipeline.

Settings only choose the algorithm that orders the ops, and whether activations may be computed
again.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
from collections.abc import Callable, Sequence

import numpy as np

from tensorflow_ipu.planner.memory import liveness, stash
from tensorflow_ipu.planner.memory.liveness import Intervals, Order, in_order
from tensorflow_ipu.planner.memory.stash import StageStash
from tensorflow_ipu.planner.program.accesses import TENSOR_KIND, Accesses
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.planner.schedule import PipelineDescription, RecomputationMode
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Op, Workload
from tensorflow_ipu.util import op_names

# --- Dependences between ops ---

# Ops with side effects, by kind; ops of one kind keep their order.
_EFFECTS = {
    "feed in": ("Infeed", "IpuRecv", "Dequeue"),
    "feed out": ("Outfeed", "IpuSend", "Enqueue", "Print", op_names.ASSERTION),
    "collective": (*op_names.COLLECTIVES, op_names.TABLE_LOOKUP),
    "random": ("IpuRandom", "RandomUniform", "RandomNormal", "Dropout"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Region:
    """The ops of one function, numbered from 0; those that they run count as part of them.

    Attributes:
        parent: Op that runs the function; -1 for the program.
        ops: Index of each op.
        before: Ops that must come before each, in program order.
        after: Ops that must come after each.
        rank: Place of each op's branch, and of its phase in a pipeline; 0 outside of both.
        reads: Tensors that each op uses, made in this function, numbered from 0.
        users: Ops that use each of these tensors.
        sizes: Bytes of each.
        made: Bytes of the tensors that each op makes.
    """

    parent: int
    ops: Sequence[int]
    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]
    rank: Sequence[int]
    reads: Sequence[Sequence[int]]
    users: Sequence[Sequence[int]]
    sizes: Sequence[int]
    made: Sequence[int]


@dataclasses.dataclass(frozen=True)
class DependenceGraph:
    """The functions of a program.

    Attributes:
        regions: One for the program and one for each op that runs functions.
    """

    regions: Sequence[Region]


def graph(workload: Workload, accesses: Accesses) -> DependenceGraph:
    """Finds the dependences of a program.

    Args:
        workload: the program.
        accesses: accesses of ops to buffers.
    """
    children: dict[int, list[int]] = {-1: []}
    for index, parent in enumerate(accesses.parent.tolist()):
        children.setdefault(parent, []).append(index)
    uses = _Uses(workload, accesses)
    return DependenceGraph([uses.region(parent, ops) for parent, ops in children.items()])


def effect(op: Op) -> str:
    """Returns the kind of side effect that an op has; empty for none."""
    for kind, parts in _EFFECTS.items():
        if any(part in op.type for part in parts):
            return kind
    return ""


class _Uses:
    """Buffers and side effects that each op uses, from which dependences follow."""

    def __init__(self, workload: Workload, accesses: Accesses) -> None:
        self._workload, self._accesses = workload, accesses
        self._by_op: list[list[tuple[int, bool]]] = [[] for _ in workload.ops]
        order = np.argsort(accesses.op, kind="stable")
        columns = (accesses.op, accesses.buffer, accesses.write)
        kinds: dict[str, bool] = {}
        for op, buffer, write in zip(*(column[order].tolist() for column in columns)):
            op_type = workload.ops[op].type
            if op_type not in kinds:
                kinds[op_type] = op_names.is_update(op_type)
            self._by_op[op].append((buffer, write or kinds[op_type]))
        self._effects: dict[str, str] = {}
        sizes = [0] * len(workload.buffers)
        tensor = accesses.kind == TENSOR_KIND
        for buffer, size in zip(
            accesses.instance_buffer[tensor].tolist(), accesses.num_bytes[tensor].tolist()
        ):
            sizes[buffer] = size
        self._sizes = sizes
        stages = [op.stage for op in workload.ops if op.stage is not None]
        self._stages = max(stages, default=-1) + 1

    def region(self, parent: int, ops: list[int]) -> Region:
        """Returns the region of the ops that an op runs directly."""
        uses = [self._segment(op) for op in ops]
        before = self._before(uses)
        after: list[list[int]] = [[] for _ in ops]
        for node, earlier in enumerate(before):
            for other in earlier:
                after[other].append(node)
        numbers: dict[int, int] = {}
        users: list[list[int]] = []
        reads: list[list[int]] = []
        made = [0] * len(ops)
        for node, used in enumerate(uses):
            mine = []
            for buffer, write in used.items():
                if buffer < 0 or not self._sizes[buffer]:
                    continue
                if write and buffer not in numbers:
                    numbers[buffer] = len(users)
                    users.append([])
                    made[node] += self._sizes[buffer]
                elif buffer in numbers:
                    users[numbers[buffer]].append(node)
                    mine.append(numbers[buffer])
            reads.append(mine)
        rank = [self._rank(self._workload.ops[op]) for op in ops]
        sizes = [self._sizes[buffer] for buffer in numbers]
        return Region(parent, ops, before, after, rank, reads, users, sizes, made)

    def _segment(self, op: int) -> dict[int, bool]:
        """Returns the buffers that an op and its callees use, and whether they write them.

        Kinds of side effects are written like buffers with negative numbers.
        """
        found: dict[int, bool] = {}
        kinds = list(_EFFECTS)
        for index in range(op, int(self._accesses.end[op])):
            for buffer, write in self._by_op[index]:
                found[buffer] = write or found.get(buffer, False)
            op_type = self._workload.ops[index].type
            if op_type not in self._effects:
                self._effects[op_type] = effect(self._workload.ops[index])
            if self._effects[op_type]:
                found[-1 - kinds.index(self._effects[op_type])] = True
        return found

    def _before(self, uses: list[dict[int, bool]]) -> list[list[int]]:
        """Returns the ops before each op: earlier users for a writer, the writer for a reader."""
        written: dict[int, int] = {}
        read: dict[int, list[int]] = {}
        found = []
        for node, used in enumerate(uses):
            earlier: set[int] = set()
            for buffer, write in used.items():
                if buffer in written:
                    earlier.add(written[buffer])
                if write:
                    earlier.update(read.pop(buffer, ()))
                    written[buffer] = node
                else:
                    read.setdefault(buffer, []).append(node)
            earlier.discard(node)
            found.append(sorted(earlier))
        return found

    def _rank(self, op: Op) -> int:
        """Returns the rank of an op's phase: forward through the stages, back, then updates.

        Branches come one after the other.
        """
        last = 2 * self._stages + 1
        first = op.branch * (last + 1)
        if op.stage is None:
            return first
        if op.phase == "update":
            return first + last
        return first + (last - 1 - op.stage if op.phase == "backward" else op.stage + 1)


# --- Orders of ops ---

_Algorithm = Callable[[Region], list[int]]
_BEST = "CHOOSE_BEST"


def orders_of(workload: Workload, accesses: Accesses, algorithm: str) -> list[Order]:
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


@dataclasses.dataclass(frozen=True)
class Liveness:
    """Live ranges of all memory instances under one choice of recomputation.

    Attributes:
        accesses: Accesses of ops to buffers.
        stashes: Stashes of a pipeline's stages.
        intervals: Live ranges of instances outside of stashes.
        recompute: Whether activations are recomputed.
    """

    accesses: Accesses
    stashes: Sequence[StageStash]
    intervals: Intervals
    recompute: bool

    def peak(self, ipu: int) -> int:
        """Returns the peak bytes of tensors on an IPU, without variables.

        Args:
            ipu: the IPU.
        """
        accesses, found = self.accesses, self.intervals
        stretches = found.where(accesses.instance_ipu[found.instance] == ipu)
        sizes = accesses.num_bytes[stretches.instance]
        curve = liveness.curve(len(accesses.end), stretches, sizes)
        stashed = (
            stash.num_bytes(each, accesses, self.recompute)
            for each in self.stashes
            if each.ipu == ipu
        )
        return int(curve.max(initial=0)) + sum(stashed)


# --- Live ranges ---


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """The order of a program's ops, and the live ranges of its memory in that order.

    Attributes:
        placed: The program.
        order: Order of its ops.
    """

    placed: PlacedWorkload
    order: Order

    @functools.cached_property
    def kept(self) -> Liveness:
        """Live ranges with activations that are kept for the backward pass."""
        return self._found(self.placed.accesses, recompute=False)

    @functools.cached_property
    def recomputed(self) -> Liveness:
        """Live ranges with recomputed activations."""
        return self._found(self.placed.accesses, recompute=True)

    @functools.cached_property
    def rematerialized(self) -> Liveness:
        """Live ranges with each elementwise result recomputed by the ops that read it."""
        return self._found(self.placed.rematerialized_accesses, recompute=True)

    def choices(self, recompute: bool) -> tuple[Liveness, ...]:
        """Returns the live ranges of each choice: activations kept, or recomputed.

        Args:
            recompute: whether the program may recompute them.
        """
        if not recompute or not len(self.placed.accesses.first):
            return (self.kept,)
        if self.placed.rematerialized_accesses is self.placed.accesses:
            return self.kept, self.recomputed
        return self.kept, self.recomputed, self.rematerialized

    def peak(self, recompute: bool) -> int:
        """Returns the peak bytes of tensors over all IPUs, without variables.

        Args:
            recompute: whether activations are recomputed.
        """
        way = self.rematerialized if recompute else self.kept
        return max((way.peak(ipu) for ipu in range(self.placed.placement.ipus)), default=0)

    def _found(self, accesses: Accesses, recompute: bool) -> Liveness:
        """Returns the live ranges for some accesses."""
        workload = self.placed.workload
        pairs = liveness.in_place_pairs(workload, accesses)
        base = liveness.intervals(accesses, self.order, pairs)
        pipeline = self.placed.pipeline if len(accesses.first) else None
        if pipeline is not None:
            phases = stash.phases_of(workload)
            stashes = stash.find(workload, accesses, phases, pipeline)
            found = stash.pipelined(
                workload,
                accesses,
                self.order,
                base,
                phases,
                stashes,
                recompute,
                _at_once(pipeline),
            )
            return Liveness(accesses, stashes, found, recompute)
        if recompute:
            base = stash.local(workload, accesses, self.order, base, pairs, self.placed.sections)
        return Liveness(accesses, (), base, recompute)


def find(placed: PlacedWorkload, algorithm: str) -> list[Lifetimes]:
    """Orders the ops of a program in all ways that an algorithm has.

    Args:
        placed: the program.
        algorithm: name of a `SchedulingAlgorithm`.

    Raises:
        ValueError: there is no such algorithm.
    """
    orders = orders_of(placed.workload, placed.all_accesses, algorithm)
    return [Lifetimes(placed, order) for order in orders]


def best(found: Sequence[Lifetimes], recompute: bool) -> Lifetimes:
    """Returns the order with the lowest peak of tensors on any IPU; of equal ones the first.

    Args:
        found: a program in different orders.
        recompute: whether it may recompute activations.
    """
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda each: each.peak(recompute))


def recomputes(workload: Workload, settings: Settings) -> bool:
    """Returns whether settings or the pipeline allow activations to be recomputed.

    Args:
        workload: the program.
        settings: chip, replicas and options.
    """
    described = workload.pipeline is not None and workload.pipeline.recomputation is not None
    return settings.recompute or described


def _at_once(pipeline: PipelineDescription) -> bool:
    """Returns whether a whole stage is recomputed before its backward pass."""
    mode = pipeline.recomputation or RecomputationMode.Auto
    resolved = dataclasses.replace(pipeline, recomputation=mode).resolved_recomputation
    return resolved is RecomputationMode.RecomputeThenBackpropagate
