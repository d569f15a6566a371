"""`program_tree`: a launch in order: loops, calls, branches, stages, ops, transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import Plan, median_label
from tensorflow_ipu.planner.time.items import COLLECTIVE, HOST
from tensorflow_ipu.planner.time.transfers import HOST_IN, HOST_OUT
from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.profiler.views.operations import FORWARD, Operation, kind_of
from tensorflow_ipu.util import op_names

PROGRAM = "program"
LOOP = "loop"
CALL = "call"
CONDITIONAL = "conditional"
BRANCH = "branch"
STAGE = "stage"
OP = "op"


class ProgramNode(NamedTuple):
    """An executed part of a program, with its inner parts.

    Args:
        kind: `program`, `loop`, `call`, `conditional`, `branch` (of a conditional), `stage` (a
            phase of a pipeline's stage), `op`, or the kind of a transfer: `host in`, `host out`,
            `streaming in`, `streaming out`, `link`, `collective`.
        name: of the op, stage or transfer.
        op: index into `Workload.ops`; None if it is no op.
        row: position of its operation, None for a node with parts.
        ipu: the IPU it runs on; None for the program.
        end: position one past the last part in it.
        depth: parts around it.
        trips: iterations of a loop; None if it is no loop.
        runs: executions in a launch.
        cycles: of all runs in a launch, with all parts.
        label: median label of the cycles.
    """

    kind: str
    name: str
    op: int | None
    row: int | None
    ipu: int | None
    end: int
    depth: int
    trips: int | None
    runs: int
    cycles: float
    label: str


def program_tree(
    plan: Plan, order: np.ndarray, operations: Sequence[Operation]
) -> tuple[ProgramNode, ...]:
    """Returns the parts of a launch as a tree, in order of execution.

    Args:
        plan: memory and time of a program.
        order: indices of the ops in the order of execution.
        operations: its operations with their cycles.

    Returns:
        Parts in the order of execution, inner parts after their outer one; without ops that take no
        time. The first is the program.
    """
    tree = _Tree(plan, order, operations)
    tree.add_program()
    return tuple(tree.nodes)


class _Tree:
    """Builder of a tree."""

    def __init__(self, plan: Plan, order: np.ndarray, operations: Sequence[Operation]) -> None:
        self.nodes: list[ProgramNode] = []
        self._workload = plan.workload
        self._order: list[int] = order.tolist()
        self._rows = operations
        self._at: dict[tuple[int, int], list[int]] = {}
        for index, row in enumerate(operations):
            self._at.setdefault(row.place, []).append(index)
        for found in self._at.values():
            # The rows of one place in the order in which they were found, not of their cycles.
            found.sort(key=lambda index: self._rows[index].op is not None)
        self._labels: list[dict[Label, float]] = []

    def add_program(self) -> None:
        """Adds the whole program."""
        end = len(self._workload.ops)
        root = self._open(PROGRAM, self._workload.name)
        self._add_rows((-1, -1), (-1, 0), (-1, 1))
        self._add_ops(0, len(self._order))
        self._add_rows((end, -1), (end, 0), (end, 1))
        self._close(root)

    def _add_ops(self, begin: int, end: int) -> None:
        """Adds the ops at some positions of the order, the parts of each with it."""
        stages = {} if self._workload.pipeline is None else self._stages(begin, end)
        position = begin
        while position < end:
            op = self._workload.ops[self._order[position]]
            if position not in stages:
                self._add_op(position)
            elif stages[position]:
                self._add_stage(op, stages[position])
            position = self._end(position)

    def _stages(self, begin: int, end: int) -> dict[int, list[int]]:
        """Returns the positions of each phase of a stage, at the first of them; none at the others.

        Stages are on IPUs of their own, so their ops are grouped even with other ops between them.
        Ops without a phase are in the phase of the stage before them.
        """
        found: dict[int, list[int]] = {}
        groups: dict[tuple[int, str], list[int]] = {}
        phases: dict[int, str] = {}
        position = begin
        while position < end:
            op = self._workload.ops[self._order[position]]
            if op.stage is not None:
                phase = phases[op.stage] = op.phase or phases.get(op.stage, FORWARD)
                group = groups.setdefault((op.stage, phase), [])
                found[position] = [] if group else group
                group.append(position)
            position = self._end(position)
        return found

    def _add_stage(self, op: Op, positions: Sequence[int]) -> None:
        """Adds a phase of a pipeline's stage."""
        names, stage = self._workload.stage_names, op.stage or 0
        name = names[stage] if stage < len(names) else f"stage {stage}"
        phase = op.phase or FORWARD
        node = self._open(STAGE, f"{name}, {phase}", ipu=op.ipu, runs=op.runs)
        for position in positions:
            self._add_op(position)
        self._close(node)

    def _add_op(self, position: int) -> None:
        """Adds an op with its callees, and the transfers before and after it."""
        index = self._order[position]
        op = self._workload.ops[index]
        self._add_rows((index, -1))
        if op.end > index + 1:
            kind, trips = _container(op), op.trip_count
            node = self._open(kind, op.name, index, op.ipu, trips, op.runs)
            self._add_rows((index, 0))
            if kind == CONDITIONAL:
                self._add_branches(position + 1, self._end(position))
            else:
                self._add_ops(position + 1, self._end(position))
            self._close(node)
        else:
            self._add_rows((index, 0))
        self._add_rows((index, 1))

    def _add_branches(self, begin: int, end: int) -> None:
        """Adds the ops of a conditional by branch."""
        position = begin
        while position < end:
            branch = self._workload.ops[self._order[position]].branch
            after = self._end(position)
            while after < end and self._workload.ops[self._order[after]].branch == branch:
                after = self._end(after)
            node = self._open(BRANCH, f"branch {branch}")
            self._add_ops(position, after)
            self._close(node)
            position = after

    def _add_rows(self, *places: tuple[int, int]) -> None:
        """Adds the operations at some places."""
        for place in places:
            for index in self._at.get(place, ()):
                row = self._rows[index]
                node = self._open(self._kind(row), row.name, row.op, row.ipu, None, row.runs, index)
                self._close(node, row)

    def _kind(self, row: Operation) -> str:
        """Returns the kind of a node that is an operation."""
        if row.op is None:
            return row.type
        op = self._workload.ops[row.op]
        kind = kind_of(op)
        if kind == HOST:
            return HOST_IN if op.type == op_names.INFEED else HOST_OUT
        return COLLECTIVE if kind == COLLECTIVE else OP

    def _end(self, position: int) -> int:
        """Returns the position after an op and its callees, which stay together."""
        index = self._order[position]
        return position + self._workload.ops[index].end - index

    def _open(
        self,
        kind: str,
        name: str,
        op: int | None = None,
        ipu: int | None = None,
        trips: int | None = None,
        runs: int = 1,
        row: int | None = None,
    ) -> int:
        """Starts a part; returns its position."""
        depth = len(self._labels)
        node = ProgramNode(kind, name, op, row, ipu, 0, depth, trips, runs, 0.0, "")
        self.nodes.append(node)
        self._labels.append({})
        return len(self.nodes) - 1

    def _close(self, position: int, row: Operation | None = None) -> None:
        """Ends a part; a part without any time is dropped."""
        cycles = self._labels.pop()
        node, end = self.nodes[position], len(self.nodes)
        if row is not None:
            cycles = {Label(row.label): row.cycles}
            self.nodes[position] = node._replace(end=end, cycles=row.cycles, label=row.label)
        elif end == position + 1 and position:
            self.nodes.pop()
            return
        else:
            total, label = sum(cycles.values()), median_label(cycles).value
            self.nodes[position] = node._replace(end=end, cycles=total, label=label)
        for each, of_label in cycles.items() if self._labels else ():
            around = self._labels[-1]
            around[each] = around.get(each, 0.0) + of_label


def _container(op: Op) -> str:
    """Returns the kind of an op that runs others."""
    if op_names.is_conditional(op.type):
        return CONDITIONAL
    return LOOP if op_names.is_loop(op.type) or op.trip_count is not None else CALL
