"""Memory of a program: tiles, variables, and the bytes that are live at each step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from tensorflow_ipu.frontends.pva.programs import NotModelledError, Program, ProgramTree, PvaObject
from tensorflow_ipu.planner.details import Details, details
from tensorflow_ipu.planner.memory import residents
from tensorflow_ipu.planner.memory.memory_plan import TEMPORARIES
from tensorflow_ipu.planner.memory.residents import CONSTANTS, STREAMS
from tensorflow_ipu.planner.plan import Category, IpuMemory, LiveBuffer, Plan
from tensorflow_ipu.util.short_repr import shows

# Storage categories of Poplar's profile data, and which of the planner's are in them. What the
# planner keeps in a category of its own and is not here are variables.
_STORAGE = {
    "constant": CONSTANTS,
    "controlCode": residents.CONTROL,
    "hostExchangePacketHeader": residents.HEADERS,
    "hostMessage": STREAMS,
    "internalExchangeCode": residents.EXCHANGE,
    "stack": residents.STACK,
    "vertexCode": residents.VERTEX,
    "vertexInstanceState": residents.VERTEX_STATE,
}
VARIABLE = "variable"
_OURS = {planned: storage for storage, planned in _STORAGE.items()}


def storage_category(planned: str) -> str:
    """Returns the storage category that memory of a category of the planner is in.

    Args:
        planned: name of the planner's category, such as `activations`.
    """
    return _OURS.get(planned, VARIABLE)


@dataclasses.dataclass(frozen=True)
class MemoryTotal(PvaObject):
    """Bytes of a tile.

    Attributes:
        includingGaps: All occupied bytes, with gaps between variables.
        excludingGaps: The same without gaps.
    """

    includingGaps: int
    excludingGaps: int


@dataclasses.dataclass(frozen=True)
class CategoryMemory(PvaObject):
    """Bytes of one category.

    Attributes:
        total: The bytes.
    """

    total: int


@dataclasses.dataclass(frozen=True, repr=False)
class MemoryCategories(PvaObject):
    """The memory of a tile by storage category; iterating gives the names that are modelled.

    Attributes:
        constant: Constants of the program.
        controlCode: Code that runs the programs.
        hostExchangePacketHeader: Headers of packets to the host.
        hostMessage: Buffers of streams to and from the host.
        internalExchangeCode: Code of exchange, between tiles and with the host.
        stack: Stacks of the tile's threads.
        variable: Variables, activations, inputs and temporaries.
        vertexCode: Code of vertices.
        vertexInstanceState: Descriptions of vertices.
    """

    constant: CategoryMemory
    controlCode: CategoryMemory
    hostExchangePacketHeader: CategoryMemory
    hostMessage: CategoryMemory
    internalExchangeCode: CategoryMemory
    stack: CategoryMemory
    variable: CategoryMemory
    vertexCode: CategoryMemory
    vertexInstanceState: CategoryMemory

    NOT_MODELLED = {
        **dict.fromkeys(("controlId", "controlTable"), "it is in controlCode"),
        **dict.fromkeys(
            ("copyDescriptor", "vertexFieldData", "vectorListDescriptor", "outputEdge"),
            "the state of vertices is in vertexInstanceState",
        ),
        **dict.fromkeys(
            ("hostExchangeCode", "globalExchangeCode"), "it is in internalExchangeCode"
        ),
        "globalExchangePacketHeader": "headers of packets are in hostExchangePacketHeader",
        **dict.fromkeys(
            ("message", "globalMessage", "rearrangement", "multiple"),
            "temporaries of ops are in variable",
        ),
        **dict.fromkeys(
            ("sharedCodeStorage", "sharedDataStorage"), "no two categories share memory"
        ),
        "instrumentationResults": "nothing is measured on the chip",
    }

    def __iter__(self) -> Iterator[str]:
        """The names of the categories that are modelled."""
        return (field.name for field in dataclasses.fields(self))

    __repr__ = shows(lambda self: {name: getattr(self, name).total or None for name in self})


def _by_category(memory: IpuMemory, tile: int) -> MemoryCategories:
    """The memory of a tile, without gaps."""
    sums = {field.name: 0 for field in dataclasses.fields(MemoryCategories)}
    for category in memory.categories:
        if category.name != residents.GAPS:
            sums[storage_category(category.name)] += int(category.tiles[tile])
    return MemoryCategories(**{name: CategoryMemory(total) for name, total in sums.items()})


class TileMemory(PvaObject):
    """The memory of a tile at its own peak.

    Args:
        memory: of its IPU.
        tile: number of the tile on the IPU.
    """

    def __init__(self, memory: IpuMemory, tile: int) -> None:
        self._memory, self._tile = memory, tile

    @property
    def category(self) -> MemoryCategories:
        """The bytes by storage category; their sum is `total.excludingGaps`."""
        return _by_category(self._memory, self._tile)

    @property
    def total(self) -> MemoryTotal:
        """All bytes that are taken."""
        gaps = self._memory.category(residents.GAPS)
        lost = 0 if gaps is None else int(gaps.tiles[self._tile])
        taken = int(self._memory.peak[self._tile])
        return MemoryTotal(taken, taken - lost)

    @property
    def alwaysLiveBytes(self) -> int:
        """Bytes that are taken during the whole program, without gaps."""
        return self._live(lambda category: category.always_live)

    @property
    def notAlwaysLiveBytes(self) -> int:
        """Bytes that are taken for part of the program, at the most."""
        return self._live(lambda category: not category.always_live)

    def _live(self, wanted: Callable[[Category], bool]) -> int:
        return sum(
            int(category.tiles[self._tile])
            for category in self._memory.categories
            if category.name != residents.GAPS and wanted(category)
        )

    __repr__ = shows(
        lambda self: {
            "total": self.total,
            "alwaysLiveBytes": self.alwaysLiveBytes,
            "notAlwaysLiveBytes": self.notAlwaysLiveBytes,
        }
    )


class CompilationTile(PvaObject):
    """A tile of the IPUs that one replica was compiled for.

    Args:
        memory: of its IPU.
        tile: number of the tile on the IPU.

    Attributes:
        memory: What is on it.
    """

    def __init__(self, memory: IpuMemory, tile: int) -> None:
        self.memory = TileMemory(memory, tile)

    __repr__ = shows(lambda self: {"memory": self.memory})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Variable(PvaObject):
    """Something that takes memory of an IPU.

    Attributes:
        name: Name of the tensor or variable.
        bytes: Its size on the IPU, all tiles.
        category: Its storage category.
    """

    name: str
    bytes: int
    category: str

    __repr__ = shows(lambda self: {"": self.name, "bytes": self.bytes, "category": self.category})


class NotAlwaysLiveMemory(PvaObject):
    """Transient variables of a step, on all tiles of its IPU.

    Args:
        num_bytes: of all of it.
        variables: lists the variables; None if the report lacks them.

    Attributes:
        bytes: Bytes of all of it.
    """

    def __init__(
        self, num_bytes: int, variables: Callable[[], tuple[Variable, ...] | None]
    ) -> None:
        self.bytes = num_bytes
        self._list = variables

    @functools.cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, largest first; temporaries of the step's op count as one.

        Raises:
            NotModelledError: this version plans other memory than the report has, which lists it
                only for the step at which most is live on the IPU.
        """
        found = self._list()
        if found is None:
            raise NotModelledError(
                "The report was made by a version that planned memory otherwise. It lists the "
                "variables of the step at which most is live on an IPU, of others only the bytes: "
                "take max(steps, key=lambda s: s.notAlwaysLiveMemory.bytes), or make it again."
            )
        return found

    __repr__ = shows(lambda self: {"bytes": self.bytes})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LivenessProgramStep(PvaObject):
    """A step of the program, an op on its IPU, with its live variables.

    Attributes:
        program: The program of the op.
        notAlwaysLiveMemory: Live transient variables.
    """

    program: Program
    notAlwaysLiveMemory: NotAlwaysLiveMemory

    __repr__ = shows(lambda self: {"": self.program.name, "bytes": self.notAlwaysLiveMemory.bytes})


def liveness_steps(plan: Plan, tree: ProgramTree) -> list[LivenessProgramStep]:
    """Returns the steps of a program, by IPU.

    Args:
        plan: of the program.
        tree: its programs.
    """
    found = _Live(plan)
    return [step for memory in plan.memory for step in _steps(memory, tree, found)]


def always_live(plan: Plan) -> list[Variable]:
    """Returns the resident variables of all IPUs, largest first.

    Args:
        plan: of the program.
    """
    found = [v for memory in plan.memory for v in _variables(memory, always=True)]
    return sorted(found, key=lambda variable: -variable.bytes)


class _Live:
    """Live variables of each step, computed on first access.

    Args:
        plan: of the program.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @functools.cached_property
    def _details(self) -> Details:
        return details(self._plan)

    def at(self, memory: IpuMemory, step: int) -> tuple[Variable, ...] | None:
        """Live variables at a step of an IPU; None if unknown."""
        if not self._details.exact[memory.ipu]:
            known = memory.live_ops[step] == memory.peak_op
            return tuple(_variables(memory, always=False)) if known else None
        found = self._details.memory[memory.ipu]
        names = self._plan.workload.buffers
        live = [
            Variable(names[each.buffer].name, each.num_bytes, storage_category(each.category))
            for each in found.live(step)
        ]
        temporary = int(found.temporaries[step]) * found.compute_tiles
        if temporary:
            op = self._plan.workload.ops[int(memory.live_ops[step])]
            category = storage_category(TEMPORARIES)
            live.append(Variable(f"temporaries of {op.name}", temporary, category))
        return tuple(sorted(live, key=lambda variable: -variable.bytes))


def _steps(memory: IpuMemory, tree: ProgramTree, live: _Live) -> Iterator[LivenessProgramStep]:
    """The steps of an IPU."""
    both = zip(memory.live_ops.tolist(), memory.live_bytes.tolist())
    for step, (op, num_bytes) in enumerate(both):
        variables = functools.partial(live.at, memory, step)
        yield LivenessProgramStep(tree.of_op(op), NotAlwaysLiveMemory(num_bytes, variables))


def _variables(memory: IpuMemory, always: bool) -> Iterator[Variable]:
    """Live variables at the peak of an IPU; without code and gaps for resident ones."""
    lasting = {category.name for category in memory.categories if category.always_live}
    for live in memory.at_peak:
        if (live.category in lasting) == always and _is_data(live, always):
            yield Variable(live.name, live.num_bytes, storage_category(live.category))


def _is_data(live: LiveBuffer, always: bool) -> bool:
    """Whether it holds data: code, stacks and gaps are named like their category."""
    return not always or live.name != live.category
