"""`ProgramTree`: the programs of a report, made from its ops, loops, stages and transfers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorflow_ipu import op_names
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.frontends.pva.compute_sets import ComputeSet, compute_set
from tensorflow_ipu.frontends.pva.programs import (
    CallProgram,
    DoExchangeProgram,
    GlobalExchangeProgram,
    IfProgram,
    OnTileExecuteProgram,
    Program,
    RepeatProgram,
    SequenceProgram,
    StreamCopyMidProgram,
    SyncProgram,
    walk,
)
from tensorflow_ipu.planner.plan import Plan, Segment
from tensorflow_ipu.planner.program.counted_ops import is_container
from tensorflow_ipu.planner.time.items import (
    CHIP_KINDS,
    COLLECTIVE,
    COMPUTE,
    EXCHANGE,
    HOST,
    IDLE,
    LINK,
    STREAMING,
    SYNC,
)
from tensorflow_ipu.planner.workload import Op

# The class of what a segment of each kind does; computations have a compute set.
_CLASSES: Mapping[str, type[Program]] = {
    SYNC: SyncProgram,
    EXCHANGE: DoExchangeProgram,
    LINK: GlobalExchangeProgram,
    COLLECTIVE: GlobalExchangeProgram,
    HOST: StreamCopyMidProgram,
    STREAMING: StreamCopyMidProgram,
    IDLE: SyncProgram,
}
_WAIT = "wait"


class _Key(NamedTuple):
    """What the segments of one program have in common."""

    op: int | None
    kind: str
    name: str
    stage: int | None
    phase: str
    ipu: int | None


class ProgramTree:
    """The programs of a report.

    Args:
        plan: of the program.

    Attributes:
        root: The whole program, with everything inside.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._codelets = {time.op: time.cost.codelets for time in plan.timeline.ops}
        self._leaves: dict[_Key, Program] = {}
        self._stages: dict[tuple[int, str, str, int], SequenceProgram] = {}
        self._ops: dict[int, Program] = {}
        self.root = SequenceProgram(plan.workload.name)
        self._add_ops()
        for segment in plan.timeline.segments:
            self.program_of(segment)

    def all(self) -> list[Program]:
        """Returns all programs, each before those inside it."""
        return walk([self.root])

    def compute_sets(self) -> list[ComputeSet]:
        """Returns the compute sets of all programs."""
        return [p.computeset for p in self.all() if isinstance(p, OnTileExecuteProgram)]

    def of_op(self, op: int) -> Program:
        """Returns the program of an op.

        Args:
            op: index of the op, which computes something or has memory.
        """
        return self._ops.get(op, self.root)

    def program_of(self, segment: Segment) -> Program:
        """Returns the program that an IPU runs in a stretch of the timeline.

        Args:
            segment: the stretch; of segments that are alike all have one program.
        """
        key = _key(segment)
        if key not in self._leaves:
            parent = self._ops.get(-1 if segment.op is None else segment.op)
            if parent is None:
                parent = self.root if segment.stage is None else self._stage(segment)
            self._add_leaf(parent, key)
        return self._leaves[key]

    def _add_leaf(self, parent: Program, key: _Key) -> None:
        """Adds what an IPU does in one go."""
        if key.kind == COMPUTE:
            codelets = self._codelets.get(-1 if key.op is None else key.op, ())
            if key.op is None and key.stage is not None:
                codelets = self._codelets_of_stage(key.stage)
            leaf: Program = OnTileExecuteProgram(compute_set(key.name, codelets), key.ipu)
        else:
            leaf = _CLASSES[key.kind](key.name or _WAIT, key.ipu)
        parent.children.append(leaf)
        self._leaves[key] = leaf

    def _codelets_of_stage(self, stage: int) -> tuple[str, ...]:
        """The vertex types of all ops of a stage."""
        ops = self._plan.workload.ops
        found = (n for op, names in self._codelets.items() if ops[op].stage == stage for n in names)
        return tuple(dict.fromkeys(found))

    def _stage(self, segment: Segment) -> SequenceProgram:
        """The sequence of a stage in one of its phases."""
        key = segment.stage or 0, segment.phase, segment.name, segment.ipu
        if key not in self._stages:
            name = f"{segment.name} {segment.phase or 'forward'}"
            self._stages[key] = SequenceProgram(name, segment.ipu)
            self.root.children.append(self._stages[key])
        return self._stages[key]

    def _add_ops(self) -> None:
        """Adds a sequence for each op that does something, inside the loop or call it is in."""
        kinds = self._kinds()
        live = {int(op) for memory in self._plan.memory for op in memory.live_ops}
        inside: list[tuple[int, Program]] = []
        branches: dict[tuple[int, int], Program] = {}
        ops = self._plan.workload.ops
        for index, op in enumerate(ops):
            while inside and index >= inside[-1][0]:
                inside.pop()
            parent = inside[-1][1] if inside else self.root
            if isinstance(parent, IfProgram):
                parent = _branch(branches, parent, op)
            if is_container(index, op):
                inside.append((op.end, _container(op)))
                self._add(parent, index, inside[-1][1])
            elif index in kinds or index in live:
                self._add(parent, index, SequenceProgram(op.name, op.ipu))
                for kind in kinds.get(index, ()):
                    key = _Key(index, kind, op.name, None, "", op.ipu)
                    self._add_leaf(self._ops[index], key)

    def _add(self, parent: Program, index: int, program: Program) -> None:
        parent.children.append(program)
        self._ops[index] = program

    def _kinds(self) -> dict[int, list[str]]:
        """What each op does, by its segments; in a pipeline, where it has none, by its cost."""
        timeline = self._plan.timeline
        found: dict[int, list[str]] = {}
        for segment in timeline.segments:
            if segment.op is not None and segment.kind not in found.setdefault(segment.op, []):
                found[segment.op].append(segment.kind)
        for time in timeline.ops:
            if time.op not in found:
                found[time.op] = _kinds_of(self._plan.workload.ops[time.op], time.cost)
        return found


def _key(segment: Segment) -> _Key:
    """What a segment has in common with others of its program: those of an op are one."""
    if segment.op is not None:
        return _Key(segment.op, segment.kind, segment.name, None, "", segment.ipu)
    return _Key(None, segment.kind, segment.name, segment.stage, segment.phase, segment.ipu)


def _kinds_of(op: Op, cost: Cost) -> list[str]:
    """What an op does, by its type and cost: that of a transfer has its cycles as exchange."""
    if op.type in op_names.LINK_COLLECTIVES:
        return [COLLECTIVE]
    if op.ipu is None or op.type in op_names.TRANSFERS:
        return [HOST]
    cycles = (cost.sync, cost.exchange, cost.compute)
    return [kind for kind, taken in zip(CHIP_KINDS, cycles) if taken]


def _container(op: Op) -> Program:
    """The program of an op that runs others."""
    if op.trip_count is not None or op.type in op_names.LOOPS:
        return RepeatProgram(op.name, op.trip_count, op.ipu)
    if op_names.is_conditional(op.type):
        return IfProgram(op.name, op.ipu)
    return CallProgram(op.name, op.ipu)


def _branch(branches: dict[tuple[int, int], Program], parent: IfProgram, op: Op) -> Program:
    """The sequence of the branch that an op is in."""
    key = id(parent), op.branch
    if key not in branches:
        branches[key] = SequenceProgram(f"branch {op.branch}", op.ipu)
        parent.children.append(branches[key])
    return branches[key]
