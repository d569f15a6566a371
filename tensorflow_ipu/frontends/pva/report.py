"""A report of one program: how it is opened, its compilation, target and versions."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tensorflow_ipu import __version__
from tensorflow_ipu.frontends.pva import memory
from tensorflow_ipu.frontends.pva.memory import CompilationTile, LivenessProgramStep, Variable
from tensorflow_ipu.frontends.pva.programs import (
    ComputeSet,
    PrintLength,
    Program,
    ProgramTree,
    PvaList,
    PvaObject,
    SequenceProgram,
)
from tensorflow_ipu.planner.plan import Segment, Timeline
from tensorflow_ipu.profiler import schema
from tensorflow_ipu.profiler.report import Report as SavedReport
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from typing_extensions import Self


_RUN_COUNT = "autoReport.executionProfileProgramRunCount"
_LEFT_OUT = "not listed in the report"
_Stretch = tuple[float, float, Program, frozenset[int]]
_COMPUTE = "debug.computeInstrumentationLevel"
_EXTERNAL = "debug.externalExchangeInstrumentationLevel"
_INSTRUMENT = "debug.instrument"
_POPLAR_FILE = b"SQLite format 3\0"


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


class CompilationReport(PvaObject):
    """Facts of compiler and planner about a program.

    Args:
        report: the report that was read.
        tree: its programs.
        length: how much lists show of themselves.

    Attributes:
        target: What it was compiled for.
        tiles: The tiles of one replica, by IPU.
        programs: All programs, each before those inside it: the first is the whole.
        computeSets: All compute sets.
        livenessProgramSteps: The steps of the program with their live variables.
        alwaysLiveVariables: What is live all the time, largest first.
    """

    def __init__(self, report: SavedReport, tree: ProgramTree, length: PrintLength) -> None:
        plan = report.plan
        self._report = report
        self.target: Target = target_of(report)
        self.tiles: PvaList[CompilationTile] = PvaList(
            lambda: [
                CompilationTile(memory, tile)
                for memory in plan.memory
                for tile in range(len(memory.peak))
            ],
            length,
        )
        self.programs: PvaList[Program] = PvaList(tree.all, length)
        self.computeSets: PvaList[ComputeSet] = PvaList(tree.compute_sets, length)
        self.livenessProgramSteps: PvaList[LivenessProgramStep] = PvaList(
            lambda: memory.liveness_steps(plan, tree), length
        )
        self.alwaysLiveVariables: PvaList[Variable] = PvaList(
            lambda: memory.always_live(plan), length
        )

    @functools.cached_property
    def graph(self) -> Graph:
        """Sizes of the graph."""
        return Graph(len(self.computeSets), len(self._report.workload.buffers))

    @property
    def engineOptions(self) -> dict[str, str]:
        """The engine options that the program was compiled with."""
        return dict(self._report.options.get("engine", {}))

    __repr__ = shows(
        lambda self: {"": self._report.name, "target": self.target, "tiles": len(self.tiles)}
    )


@dataclasses.dataclass(frozen=True, repr=False)
class Target(PvaObject):
    """The IPUs that one replica of the program was compiled for.

    Attributes:
        type: `IPU_MODEL`, as cycles and memory come from a model.
        numIPUs: IPUs of one replica.
        numReplicas: Replicas, in all instances.
        tilesPerIpu: Tiles of each IPU.
        numTiles: Tiles of one replica, as many as `CompilationReport.tiles` has.
        bytesPerTile: Memory of a tile.
        bytesPerIPU: Memory of an IPU.
        totalMemory: Memory of all tiles of a replica.
        clockFrequency: Cycles per second.
    """

    type: str
    numIPUs: int
    numReplicas: int
    tilesPerIpu: int
    numTiles: int
    bytesPerTile: int
    bytesPerIPU: int
    totalMemory: int
    clockFrequency: float

    NOT_MODELLED = {
        "relativeSyncDelayByTile": "a sync takes the same time on all tiles",
        "minSyncDelay": "a sync takes the same time on all tiles",
    }

    __repr__ = shows(
        lambda self: {
            "type": self.type,
            "numIPUs": self.numIPUs,
            "numReplicas": self.numReplicas,
            "tilesPerIpu": self.tilesPerIpu,
            "bytesPerTile": self.bytesPerTile,
        }
    )


@dataclasses.dataclass(frozen=True, repr=False)
class Graph(PvaObject):
    """Sizes of the graph of one replica.

    Attributes:
        numComputeSets: Compute sets of the program, as many as `CompilationReport.computeSets`.
        numVars: Buffers of the program: tensors that share memory are one.
    """

    numComputeSets: int
    numVars: int

    NOT_MODELLED = {
        "numVertices": "ops are modelled by their cycles, not as single vertices",
        "numEdges": "ops are modelled by their cycles, not as single vertices",
    }

    __repr__ = shows(lambda self: {"numComputeSets": self.numComputeSets, "numVars": self.numVars})


def target_of(report: SavedReport) -> Target:
    """Returns the target of a report.

    Args:
        report: the report.
    """
    chip, ipus = report.settings.chip, report.workload.ipus
    return Target(
        type="IPU_MODEL",
        numIPUs=ipus,
        numReplicas=report.settings.replicas,
        tilesPerIpu=chip.tiles,
        numTiles=chip.tiles * ipus,
        bytesPerTile=chip.memory_per_tile,
        bytesPerIPU=chip.memory_per_tile * chip.tiles,
        totalMemory=chip.memory_per_tile * chip.tiles * ipus,
        clockFrequency=chip.clock,
    )


class _ComputeLevel(enum.Enum):
    """For how much of the chip cycles of compute are measured together."""

    Off = 0
    Vertex = 1
    Tile = 2
    Ipu = 3
    Device = 4
    Unknown = 5


class _ExternalExchangeLevel(enum.Enum):
    """For how much of the chip cycles of exchange between IPUs are measured together."""

    Off = 0
    Tile = 1
    Unknown = 2


# The classes are inside the one that has them, and named so.
for _level, _name in ((_ComputeLevel, "Compute"), (_ExternalExchangeLevel, "ExternalExchange")):
    _level.__name__ = f"{_name}InstrumentationLevel"
    _level.__qualname__ = f"InstrumentationSettings.{_level.__name__}"


class InstrumentationSettings(PvaObject):
    """Measurements that engine options requested; nothing is measured on a chip.

    Without `debug.instrument` both levels are `Unknown`: cycles are modelled, whatever is asked.

    Args:
        report: the report.
    """

    ComputeInstrumentationLevel = _ComputeLevel
    ExternalExchangeInstrumentationLevel = _ExternalExchangeLevel
    Device = _ComputeLevel.Device
    Ipu = _ComputeLevel.Ipu
    Off = _ExternalExchangeLevel.Off
    Tile = _ExternalExchangeLevel.Tile
    Unknown = _ExternalExchangeLevel.Unknown
    Vertex = _ComputeLevel.Vertex

    def __init__(self, report: SavedReport) -> None:
        engine = report.options.get("engine", {})
        self._compute = str(engine.get(_COMPUTE, "")).lower()
        self._external = str(engine.get(_EXTERNAL, "")).lower()
        self._off = str(engine.get(_INSTRUMENT, "")).lower() == "false"

    @property
    def compute(self) -> _ComputeLevel:
        """The level that `debug.computeInstrumentationLevel` named."""
        if self._off:
            return _ComputeLevel.Off
        known = {level.name.lower(): level for level in _ComputeLevel}
        return known.get(self._compute, _ComputeLevel.Unknown)

    @property
    def externalExchange(self) -> _ExternalExchangeLevel:
        """The level that `debug.externalExchangeInstrumentationLevel` named."""
        if self._off:
            return _ExternalExchangeLevel.Off
        known = {level.name.lower(): level for level in _ExternalExchangeLevel}
        return known.get(self._external, _ExternalExchangeLevel.Unknown)

    __repr__ = shows(
        lambda self: {"compute": self.compute, "externalExchange": self.externalExchange}
    )


@dataclasses.dataclass(frozen=True, repr=False)
class PoplarVersion(PvaObject):
    """The version of tensorflow_ipu that reads the report: no Poplar was used.

    Attributes:
        string: Name and version, which say that this is a model of the chip.
        major: Number before the first point.
        minor: Number after it.
        point: Number after the second point.
    """

    string: str
    major: int
    minor: int
    point: int

    NOT_MODELLED = {"packageHash": "no version of Poplar made the report"}

    __repr__ = shows(lambda self: {"": self.string})


@dataclasses.dataclass(frozen=True, repr=False)
class ProfileReportVersion(PvaObject):
    """Version of the format: the schema of `report.json`.

    Attributes:
        major: The number of the schema.
        minor: 0, as the schema has one number.
        point: 0.
        isUnstableFormat: Whether the form is one under development: never.
    """

    major: int = schema.VERSION
    minor: int = 0
    point: int = 0
    isUnstableFormat: bool = False

    __repr__ = shows(lambda self: {"": f"{self.major}.{self.minor}.{self.point}"})


def package_version() -> PoplarVersion:
    """Returns the version of this package instead of Poplar's."""
    numbers = [int(number) for number in re.findall(r"\d+", __version__)[:3]]
    major, minor, point = (*numbers, 0, 0, 0)[:3]
    text = f"tensorflow_ipu {__version__} (a model of the chip)"
    return PoplarVersion(text, major, minor, point)


class Report(PvaObject, SavedReport):
    """A report: a `Report` of `ipu.profiler`, with the names of the analysis library besides."""

    @functools.cached_property
    def compilation(self) -> CompilationReport:
        """Facts about the program."""
        return CompilationReport(self, self._tree, self._length)

    @functools.cached_property
    def execution(self) -> ExecutionReport:
        """Its modelled launches."""
        return ExecutionReport(self, self._tree, self._length)

    @property
    def instrumentationSettings(self) -> InstrumentationSettings:
        """Measurements that options requested."""
        return InstrumentationSettings(self)

    @property
    def poplarVersion(self) -> PoplarVersion:
        """The reader of the report, instead of the Poplar that wrote it."""
        return package_version()

    @property
    def version(self) -> ProfileReportVersion:
        """The form of the report."""
        return ProfileReportVersion()

    def listPrintLength(self, newLength: int) -> None:
        """Sets how many elements the lists of this report show of themselves.

        Args:
            newLength: the number, at least 0.

        Raises:
            ValueError: it is negative.
        """
        if newLength < 0:
            raise ValueError(
                f"listPrintLength: expected a number of elements, 0 or more; received {newLength}."
            )
        self._length.value = newLength

    def with_executions(self, executions: Executions) -> Self:
        """Returns the report with other numbers of executions, and the launches that follow.

        Args:
            executions: the launches of the program so far.
        """
        renewed = super().with_executions(executions)
        vars(renewed).pop("execution", None)
        return renewed

    @functools.cached_property
    def _tree(self) -> ProgramTree:
        """The programs, which compilation and execution share."""
        return ProgramTree(self.plan)

    @functools.cached_property
    def _length(self) -> PrintLength:
        """How much lists show of themselves."""
        return PrintLength()

    __repr__ = shows(lambda self: {"": self.name, "launches": self.executions.launches})


def openReport(
    profileFilename: str | os.PathLike[str],
    debugInfoFilename: str | os.PathLike[str] | None = None,
) -> Report:
    """Reads a report.

    Args:
        profileFilename: `profile.pop` or `report.json` of a report directory, or the directory.
        debugInfoFilename: not read. Names of ops and lines of the program are in the report, so
            there is no `debug.cbor`; programs that name one run.

    Returns:
        The report.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a report of tensorflow_ipu, or of another version.
    """
    del debugInfoFilename
    path = Path(profileFilename)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(_POPLAR_FILE)) == _POPLAR_FILE:
                raise ValueError(
                    f"{path} is a profile that Poplar wrote on a chip. Its form is not public: run "
                    "the program with tensorflow_ipu and autoReport.all, and open that report."
                )
    return Report.load(path)
