"""Residents of an IPU: variables, stashes, stream buffers, code, and their tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.cost import FREE, Cost
from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.memory.stash import StageStash
from tensorflow_ipu.planner.memory.tile_mapping import Layout
from tensorflow_ipu.planner.plan import Category
from tensorflow_ipu.planner.program.accesses import Accesses
from tensorflow_ipu.planner.program.placement import Placement
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import CONSTANT, VARIABLE, Op, Variable, Workload
from tensorflow_ipu.util import op_names

# --- Code, stacks, headers and gaps ---

CONTROL = "control code"
VERTEX = "vertex code"
VERTEX_STATE = "vertex state"
EXCHANGE = "exchange code"
STACK = "stack"
HEADERS = "packet headers"
GAPS = "gaps"


class CodePart(NamedTuple):
    """Memory of one kind, of equal size on each tile.

    Args:
        name: of the category.
        num_bytes: on each tile.
        label: label of the bytes.
    """

    name: str
    num_bytes: int
    label: Label


def code_parts(
    ops: Sequence[tuple[Op, Cost]], chip: Chip, outlining: bool, host_exchange: bool = True
) -> tuple[CodePart, ...]:
    """Returns the bytes of code, stacks and gaps on each tile of an IPU.

    control code   = control_code_per_tile + control_code_per_op x (ops - 1)
    vertex code    = vertex_code_per_tile + vertex_code_per_codelet x (different codelets - 1)
    exchange code  = internal_exchange_code + host_exchange_code + exchange code of the ops
    vertex state   = vertex state of the ops

    With outlining, ops of the same type, operands and options are one op: the chip calls one
    function for all of them, whose vertices and code exist once. Copies of their operands for these
    calls are not counted. The chip's figures are for a program of one op, and for each further op,
    which is assumed.

    Args:
        ops: the ops of one IPU that do something there, with their costs.
        chip: the chip.
        outlining: whether equal ops share code and vertices.
        host_exchange: whether the IPU exchanges data with the host.
    """
    busy = [(op, cost) for op, cost in ops if cost is not FREE]
    distinct = {(op.type, id(cost)): cost for op, cost in busy} if outlining else None
    counted = [cost for _, cost in busy] if distinct is None else list(distinct.values())
    codelets = {name for cost in counted for name in cost.codelets}
    exchange = chip.internal_exchange_code + chip.host_exchange_code * host_exchange
    assumed, modelled = Label.ASSUMED, Label.MODELLED
    more_ops, more_codelets = max(len(counted) - 1, 0), max(len(codelets) - 1, 0)
    control = chip.control_code_per_tile + chip.control_code_per_op * more_ops
    vertex = chip.vertex_code_per_tile + chip.vertex_code_per_codelet * more_codelets
    return (
        CodePart(CONTROL, control, assumed if more_ops else modelled),
        CodePart(VERTEX, vertex, assumed if more_codelets else modelled),
        CodePart(EXCHANGE, exchange + sum(cost.exchange_code for cost in counted), modelled),
        CodePart(VERTEX_STATE, sum(cost.vertex_state for cost in counted), modelled),
        CodePart(STACK, chip.stack_per_tile, modelled),
        CodePart(HEADERS, chip.packet_headers_per_tile, modelled),
        CodePart(GAPS, chip.gap_per_tile, assumed),
    )


# --- Variables, stashes and stream buffers ---

VARIABLES = "variables"
STATE = "optimizer state"
ACCUMULATORS = "gradient accumulators"
CONSTANTS = "constants"
STASH = "stash"
STREAMS = "host streams"
STREAMED = "streamed"

#: Category of each role of a variable.
ROLES = {
    "weight": VARIABLES,
    "optimizer state": STATE,
    "accumulator": ACCUMULATORS,
    "other": VARIABLES,
}

# With prefetching, data of the next iteration arrives while the present one is used.
_PREFETCHED = 2


class Resident(NamedTuple):
    """A tensor or buffer that is on an IPU during the whole program.

    Args:
        name: its name.
        category: of its memory.
        num_bytes: on the IPU, all tiles.
        label: label of the size.
        buffer: its buffer, None without one.
        source: line of the user's program; empty if unknown.
        parts: its parts as buffer and bytes, largest first; empty for one tensor.
    """

    name: str
    category: str
    num_bytes: int
    label: Label
    buffer: int | None = None
    source: str = ""
    parts: tuple[tuple[int, int], ...] = ()


class PlacedResident(NamedTuple):
    """A resident of an IPU with its bytes on each tile.

    Args:
        resident: the tensor, buffer or code.
        tiles: bytes on each tile, int64.
    """

    resident: Resident
    tiles: np.ndarray

    @property
    def is_code(self) -> bool:
        """Whether it is part of the program rather than a tensor: code, stacks, gaps."""
        resident = self.resident
        return resident.buffer is None and resident.name == resident.category


def variables(
    workload: Workload, placement: Placement, ipu: int, reserved: Mapping[int, int]
) -> Iterator[Resident]:
    """Yields the residents of an IPU for variables and constants.

    Args:
        workload: the program.
        placement: the IPUs of its variables.
        ipu: the IPU.
        reserved: by buffer, bytes kept free for the loaded part of a variable while it is used.
    """
    known = {b.variable: i for i, b in enumerate(workload.buffers) if b.variable is not None}
    for index, variable in enumerate(workload.variables):
        if placement.variables[index] != ipu:
            continue
        buffer = known.get(index)
        if not variable.offloaded:
            category = ROLES.get(variable.role, VARIABLES)
            yield Resident(variable.name, category, variable.share, Label.EXACT, buffer)
        if buffer is not None and buffer in reserved:
            yield Resident(variable.name, STREAMED, reserved[buffer], Label.MODELLED, buffer)
    for index, other in enumerate(workload.buffers):
        if placement.buffers[index] != ipu:
            continue
        if other.kind == VARIABLE and other.variable is None:
            yield Resident(other.name, VARIABLES, other.num_bytes, other.label, index)
        elif other.kind == CONSTANT:
            yield Resident(other.name, CONSTANTS, other.num_bytes, other.label, index)


def loaded(variable: Variable) -> int:
    """Returns the bytes that are on the IPU only while an op uses a variable.

    Weights are whole while they are used. Variables that only the weight update uses are updated in
    parts. An entry of a remote buffer is the result of the op that loads it.

    Args:
        variable: the variable.
    """
    if variable.entries:
        return 0
    whole = variable.role in ("weight", "other")
    needed = variable.num_bytes if whole else variable.share
    return needed if variable.offloaded else needed - variable.share


def stashes(
    accesses: Accesses, found: Sequence[StageStash], ipu: int, recompute: bool
) -> Iterator[Resident]:
    """Yields the stash of each stage of an IPU.

    Args:
        accesses: accesses of ops to buffers.
        found: the stash of each stage.
        ipu: the IPU.
        recompute: whether stages recompute activations.
    """
    for stage in found:
        if stage.ipu != ipu or not stage.depth:
            continue
        kept = stage.kept(recompute)
        sizes = (accesses.num_bytes[kept] * stage.depth).tolist()
        parts = sorted(zip(accesses.instance_buffer[kept].tolist(), sizes), key=lambda p: -p[1])
        name = f"stash of stage {stage.stage} ({stage.depth} mini-batches)"
        yield Resident(name, STASH, sum(sizes), Label.MODELLED, parts=tuple(parts))


def streams(
    workload: Workload, placement: Placement, ipu: int, prefetch: bool
) -> Iterator[Resident]:
    """Yields the stream buffers of an IPU's feeds.

    Args:
        workload: the program.
        placement: where its ops are.
        ipu: the IPU.
        prefetch: whether infeeds are prefetched.
    """
    for index, op in enumerate(workload.ops):
        if op.type in op_names.FEEDS and placement.ops[index] == ipu:
            times = _PREFETCHED if op.type == op_names.INFEED and prefetch else 1
            yield Resident(op.name, STREAMS, _moved(op) * times, Label.MODELLED, source=op.source)


def _moved(op: Op) -> int:
    """Returns the bytes of one run of a feed."""
    operands = op.outputs if op.type == op_names.INFEED else op.inputs
    return sum(operand.type.num_bytes for operand in operands)


def largest_load(rows: np.ndarray, sizes: np.ndarray) -> dict[int, int]:
    """Returns the buffers that are loaded for the op which needs most, with their bytes.

    Args:
        rows: position and buffer of each load.
        sizes: bytes loaded of each buffer.
    """
    if not len(rows):
        return {}
    totals = np.bincount(rows[:, 0], weights=sizes[rows[:, 1]])
    found = rows[rows[:, 0] == int(totals.argmax()), 1].tolist()
    return {buffer: int(sizes[buffer]) for buffer in found}


class ResidentLayout:
    """Layout of residents: feeds on the I/O tiles, the rest on the compute tiles.

    Args:
        residents: residents of compute tiles, in the order of the layout.
        streams: stream buffers of feeds.
        parts: code and other memory of equal size on each tile.
        settings: number of tiles.

    Attributes:
        residents: All residents.
        tiles: Bytes on each tile, int64.
    """

    def __init__(
        self,
        residents: Sequence[Resident],
        streams: Sequence[Resident],
        parts: Sequence[CodePart],
        settings: Settings,
    ) -> None:
        self.residents = (*residents, *streams)
        self._parts, self._all = parts, settings.chip.tiles
        self._places: list[tuple[Resident, int, np.ndarray]] = []
        compute, moving = Layout(settings.compute_tiles), Layout(max(settings.io_tiles, 1))
        numbers = [(resident, compute.add(resident.num_bytes)) for resident in residents]
        moved = []
        room = settings.io_tiles * int(
            settings.chip.memory_per_tile * settings.io_memory_proportion
        )
        for stream in streams:
            # Streams beyond the room of I/O tiles are on the compute tiles, as without I/O tiles.
            if stream.num_bytes <= room:
                room -= stream.num_bytes
                moved.append((stream, moving.add(stream.num_bytes)))
            else:
                numbers.append((stream, compute.add(stream.num_bytes)))
        for layout, found, offset in (
            (compute, numbers, 0),
            (moving, moved, settings.compute_tiles),
        ):
            order = layout.order()
            for resident, number in found:
                self._places.append((resident, offset, layout.tiles(number, order)))
        self._by_category = self._sums()
        self.tiles = sum(self._by_category.values(), np.zeros(self._all, np.int64))
        self.tiles = self.tiles + sum(part.num_bytes for part in parts)

    def categories(self) -> list[Category]:
        """Returns the memory by category, tensors first."""
        labels: dict[str, list[Label]] = {}
        for resident in self.residents:
            labels.setdefault(resident.category, []).append(resident.label)
        found = [
            Category(name, True, tiles, worst(labels[name]))
            for name, tiles in self._by_category.items()
        ]
        for part in self._parts:
            if part.num_bytes:
                tiles = np.full(self._all, part.num_bytes, np.int64)
                found.append(Category(part.name, True, tiles, part.label))
        return found

    def placed(self) -> Iterator[PlacedResident]:
        """Yields all residents with their bytes on each tile of the IPU, code last."""
        for resident, offset, counts in self._places:
            tiles = np.zeros(self._all, np.int64)
            tiles[offset : offset + len(counts)] = counts
            yield PlacedResident(resident, tiles)
        for part in self._parts:
            if part.num_bytes:
                tiles = np.full(self._all, part.num_bytes, np.int64)
                whole = Resident(part.name, part.name, int(tiles.sum()), part.label)
                yield PlacedResident(whole, tiles)

    def _sums(self) -> Mapping[str, np.ndarray]:
        """Returns the bytes on each tile by category."""
        found: dict[str, np.ndarray] = {}
        for resident, offset, counts in self._places:
            tiles = found.setdefault(resident.category, np.zeros(self._all, np.int64))
            tiles[offset : offset + len(counts)] += counts
        return found
