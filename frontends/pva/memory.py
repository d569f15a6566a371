"""`CompilationTile` and its `TileMemory`: bytes on each tile, with gaps and by category."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.objects import PvaObject
from tensorflow_ipu.planner.memory import code_size
from tensorflow_ipu.planner.memory.always_live import CONSTANTS, STREAMS
from tensorflow_ipu.planner.plan import Category, IpuMemory

# Storage categories of Poplar's profile data, and which of the planner's are in them. What the
# planner keeps in a category of its own and is not here are variables.
_STORAGE = {
    "constant": CONSTANTS,
    "controlCode": code_size.CONTROL,
    "hostExchangePacketHeader": code_size.HEADERS,
    "hostMessage": STREAMS,
    "internalExchangeCode": code_size.EXCHANGE,
    "stack": code_size.STACK,
    "vertexCode": code_size.VERTEX,
    "vertexInstanceState": code_size.STATE,
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
        includingGaps: All that is taken, with what is lost between variables.
        excludingGaps: The same without what is lost.
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
        if category.name != code_size.GAPS:
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
        gaps = self._memory.category(code_size.GAPS)
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
            if category.name != code_size.GAPS and wanted(category)
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
