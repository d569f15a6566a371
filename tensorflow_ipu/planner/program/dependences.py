"""Dependences between ops of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.planner.program.accesses import TENSOR_KIND, Accesses
from tensorflow_ipu.planner.workload import Op, Workload
from tensorflow_ipu.util import op_names

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
