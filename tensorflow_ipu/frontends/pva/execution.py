"""`ExecutionReport`: the steps of the program's launches, with the modelled cycles of each."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from tensorflow_ipu.frontends.pva.objects import PrintLength, PvaList, PvaObject
from tensorflow_ipu.frontends.pva.programs import Program, ProgramTree, SequenceProgram
from tensorflow_ipu.planner.plan import Segment, Timeline
from tensorflow_ipu.profiler.report import Report as SavedReport
from tensorflow_ipu.util.short_repr import shows

_RUN_COUNT = "autoReport.executionProfileProgramRunCount"
_LEFT_OUT = "not listed in the report"


@dataclasses.dataclass(frozen=True)
class CycleRange(PvaObject):
    """At which cycle the tiles of an IPU begin or end.

    Attributes:
        min: The first of them.
        max: The last of them.
    """

    min: int
    max: int


@dataclasses.dataclass(frozen=True)
class ActiveCycles(PvaObject):
    """From which cycle to which an IPU works on a step.

    Attributes:
        cyclesFrom: When its tiles begin.
        cyclesTo: When its tiles end: when the slowest does, as others wait for it.
    """

    cyclesFrom: CycleRange
    cyclesTo: CycleRange


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class StepIpu(PvaObject):
    """Cycles of a step on one IPU.

    Attributes:
        cycles: Cycles of the IPU; 0 if it has no part in the step.
        activeCycles: From when to when.
    """

    cycles: int
    activeCycles: ActiveCycles

    NOT_MODELLED = {
        "cyclesByTile": "the model knows the slowest tile of a step, not each",
        "activeTiles": "the model knows the slowest tile of a step, not each",
        "activeTileBalance": "the model knows the slowest tile of a step, not each",
    }

    __repr__ = shows(lambda self: {"cycles": self.cycles, "from": self.activeCycles.cyclesFrom.min})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ExecutionStep(PvaObject):
    """A step of a launch: a program on one IPU, or a copy between two.

    Attributes:
        program: What is run: all iterations of a loop are one step for each program in it.
        ipus: What it takes on each IPU of a replica.
    """

    program: Program
    ipus: tuple[StepIpu, ...]

    NOT_MODELLED = {"tiles": "the model knows the slowest tile of a step, not each"}

    __repr__ = shows(
        lambda self: {"": self.program.name, "cycles": [ipu.cycles for ipu in self.ipus]}
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Run(PvaObject):
    """One launch of the program.

    Attributes:
        name: Name of the program.
        steps: Its steps, in order of their start.
    """

    name: str
    steps: PvaList[ExecutionStep]

    NOT_MODELLED = {
        "microsecondsStart": "a report has modelled cycles; the trace has times of the host",
        "microsecondsEnd": "a report has modelled cycles; the trace has times of the host",
    }

    __repr__ = shows(lambda self: {"": self.name, "steps": len(self.steps)})


class ExecutionReport(PvaObject):
    """Modelled launches: one, or as many as there were if the options ask for more.

    The engine option `autoReport.executionProfileProgramRunCount` says how many at most. All are
    alike, and begin one after the other.

    Args:
        report: the report that was read.
        tree: its programs.
        length: how much lists show of themselves.

    Attributes:
        runs: The launches.
        steps: The steps of all launches.
    """

    def __init__(self, report: SavedReport, tree: ProgramTree, length: PrintLength) -> None:
        wanted = int(report.options.get("engine", {}).get(_RUN_COUNT, 1))
        count = max(1, min(report.executions.launches, wanted))
        timeline, ipus = report.plan.timeline, report.workload.ipus
        self.runs: PvaList[Run] = PvaList(
            lambda: [
                Run(
                    report.name,
                    PvaList(lambda run=run: _steps(timeline, tree, ipus, run), length),  # type: ignore[misc]
                )
                for run in range(count)
            ],
            length,
        )
        self.steps: PvaList[ExecutionStep] = PvaList(
            lambda: [step for run in self.runs for step in run.steps], length
        )

    __repr__ = shows(lambda self: {"runs": len(self.runs), "steps": len(self.steps)})


def _steps(timeline: Timeline, tree: ProgramTree, ipus: int, run: int) -> list[ExecutionStep]:
    """The steps of a launch, whose cycles on each IPU add up to its total."""
    offset = run * _whole(timeline.cycles)
    found = []
    for start, end, program, taking_part in _stretches(timeline, tree, ipus):
        first, last = offset + _whole(start), offset + _whole(end)
        active = _ipu(first, last)
        apart = _ipu(first, first)
        parts = tuple(active if ipu in taking_part else apart for ipu in range(ipus))
        found.append(ExecutionStep(program, parts))
    return found


def _whole(cycles: float) -> int:
    """A time rounded such that adjacent steps share a boundary."""
    return round(round(cycles, 3))


def _ipu(first: int, last: int) -> StepIpu:
    """Interval of a step on an IPU, in cycles."""
    return StepIpu(last - first, ActiveCycles(CycleRange(first, first), CycleRange(last, last)))


_Stretch = tuple[float, float, Program, frozenset[int]]


def _stretches(timeline: Timeline, tree: ProgramTree, ipus: int) -> list[_Stretch]:
    """Start, end, program and IPUs of each step, in order of their start."""
    found: list[_Stretch] = []
    together: dict[tuple[float, float, str, str], list[Segment]] = {}
    for segment in timeline.segments:
        # Both IPUs of a copy have a segment of it.
        key = segment.start, segment.cycles, segment.kind, segment.name
        if segment.op is not None or segment.stage is not None:
            key = (*key[:3], f"{key[3]} {segment.op} {segment.stage} {segment.ipu}")
        together.setdefault(key, []).append(segment)
    for (start, cycles, _, _), segments in together.items():
        members = frozenset(segment.ipu for segment in segments)
        found.append((start, start + cycles, tree.program_of(segments[0]), members))
    found += _gaps(timeline, ipus)
    return sorted(found, key=lambda stretch: stretch[:2])


def _gaps(timeline: Timeline, ipus: int) -> Iterator[_Stretch]:
    """Repetitions of a long pipeline that the timeline omits."""
    program = SequenceProgram(_LEFT_OUT)
    tolerance = 1e-9 * max(timeline.cycles, 1.0)
    for ipu in range(ipus):
        own = sorted((s for s in timeline.segments if s.ipu == ipu), key=lambda s: s.start)
        ends = [0.0, *itertools.accumulate((s.start + s.cycles for s in own), max)]
        for before, after in zip(ends, (*(s.start for s in own), timeline.cycles)):
            if after - before > tolerance:
                yield before, after, program, frozenset((ipu,))
