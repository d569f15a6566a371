"""A report of one program: how it is opened, its compilation, target and versions."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tensorflow_ipu import __version__
from tensorflow_ipu.frontends.pva import memory
from tensorflow_ipu.frontends.pva.execution import ExecutionReport
from tensorflow_ipu.frontends.pva.memory import CompilationTile, LivenessProgramStep, Variable
from tensorflow_ipu.frontends.pva.objects import PrintLength, PvaList, PvaObject
from tensorflow_ipu.frontends.pva.programs import ComputeSet, Program, ProgramTree
from tensorflow_ipu.profiler import schema
from tensorflow_ipu.profiler.report import Report as SavedReport
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from typing_extensions import Self


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


_COMPUTE = "debug.computeInstrumentationLevel"
_EXTERNAL = "debug.externalExchangeInstrumentationLevel"
_INSTRUMENT = "debug.instrument"


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


_POPLAR_FILE = b"SQLite format 3\0"


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
